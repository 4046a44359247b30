// Payment providers of a client, and the secrets that sign their notices. A secret is read from
// stdin, so that neither a list of processes nor the history of a shell shows it.
import { randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import type pg from "pg";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { type AuditEntry, writeAudit } from "../../../../modules/base/audit/audit.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { shownAddress } from "../../../../modules/base/public-hosts.ts";
import {
  type ProviderSettings,
  removeProvider,
  savedProviders,
  saveProvider,
} from "../../../../modules/intake/payment-notices/provider-settings.ts";
import { metadataFields } from "../../../../processors/admit/payments/postback.ts";
import { providerNames, providerOf } from "../../../../processors/admit/payments/providers.ts";
import { keyring, publicHosts } from "../../config.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";

interface ClientOption {
  readonly client: string;
}
interface SaveOptions extends ClientOption {
  readonly metadata?: readonly string[];
}
/** The secrets of every provider are longer, so a shorter one was cut. */
const SHORTEST_SECRET = 16;
const LONGEST_SECRET = 1_000;
const MAX_KEY = 100;

const audited = (tx: pg.PoolClient, entry: AuditEntry): Promise<void> =>
  writeAudit(tx, { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null }, entry);

const knownName = (name: string): string => {
  if (providerOf(name) === undefined) throw new UsageError(`${name} is none of ${providerNames.join(", ")}`);
  return name;
};

type Secrets = Pick<ProviderSettings, "secret" | "access_token" | "basic">;
/** What the second line of stdin holds, and what is so without it. */
const secondLine = (name: string) => {
  const { lookUp, hasUnsignedMetadata = false } = providerOf(name)!;
  if (lookUp !== undefined)
    return {
      ...{ field: "access_token" as const, what: "the account's access token" },
      without: "without an access token (a second line of stdin) every notice of a payment is answered 503",
    };
  if (hasUnsignedMetadata)
    return {
      ...{ field: "basic" as const, what: "user:password of its basic authentication" },
      without: "without user:password (a second line of stdin) its metadata, which it does not sign, give no credit",
    };
  return undefined;
};

/** Reads one line each: the secret, and what else the provider has. */
const secretsIn = async (name: string): Promise<Secrets> => {
  const given = process.stdin.isTTY ? "" : await text(process.stdin);
  const second = secondLine(name);
  const lines = given.split(/\r?\n/).flatMap((line) => line.trim() || []);
  const [secret = "", further] = lines;
  if (secret === "" || lines.length > (second ? 2 : 1) || lines.some((line) => line.length > LONGEST_SECRET))
    throw new UsageError(
      second
        ? `stdin: give the signing secret that ${name} shows, and in a second line ${second.what}`
        : `stdin: give the signing secret that ${name} shows: printf %s "$SECRET" | tributary processors save ${name}`,
    );
  if (lines.some((line) => line.length < SHORTEST_SECRET))
    throw new UsageError(`stdin: each line has at least ${SHORTEST_SECRET} characters: copy it whole`);
  if (second === undefined) return { secret };
  if (second.field === "basic" && further !== undefined && !/^[^:]+:./.test(further))
    throw new UsageError("stdin: the second line is user:password");
  if (further === undefined) tell(second.without);
  return further === undefined ? { secret } : { secret, [second.field]: further };
};

/** For the audit, which keeps no secret. */
const shownSecrets = ({ access_token, basic }: Secrets) => ({
  has_access_token: access_token !== undefined,
  has_password: basic !== undefined,
});

/** Reads pairs of `ours=theirs`. */
const metadataKeysIn = (given: readonly string[]): Pick<ProviderSettings, "metadata"> => {
  const pairs = given.map((one): readonly [string, string] => {
    const at = one.indexOf("=");
    const [ours, theirs] = [one.slice(0, at), one.slice(at + 1)];
    if (!metadataFields.includes(ours) || theirs === "" || theirs.length > MAX_KEY)
      throw new UsageError(`--metadata ${one}: give one of ${metadataFields.join(", ")}, = and the key of the shop`);
    return [ours, theirs];
  });
  return pairs.length === 0 ? {} : { metadata: Object.fromEntries(pairs) };
};

/** Where the provider sends its notices; a path where the ingest host is not configured. */
const addressOf = (ingest: string | undefined, processor: string, clientId: number): string =>
  shownAddress(ingest, `/postback/${processor}?client_id=${clientId}`);

const save = (named: string, { client: slugOrId, metadata = [] }: SaveOptions): Promise<void> =>
  withPool(async (pool) => {
    const processor = knownName(named);
    const keys = metadataKeysIn(metadata);
    const secrets = await secretsIn(processor);
    const { client_id: clientId } = await clientOf(pool, slugOrId);
    const { ingest } = await publicHosts();
    const address = addressOf(ingest, processor, clientId);
    await transaction(pool, [clientId], async (tx) => {
      await saveProvider(tx, { clientId, processor }, { ...secrets, ...keys }, keyring());
      const entity = `client:${clientId}`;
      const after = { processor, ...shownSecrets(secrets), ...keys };
      await audited(tx, { action: "payment_processor.saved", client_id: clientId, entity, after });
    });
    print(address);
    tell("saved, in force in every process within a second; have its notices sent there, on the ingest host");
  });

const list = ({ client: slugOrId, json }: ClientOption & { readonly json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const { client_id: clientId } = await clientOf(pool, slugOrId);
    const saved = await transaction(pool, [clientId], savedProviders);
    const { ingest } = await publicHosts();
    const rows = saved.map((one) => ({ ...one, path: addressOf(ingest, one.processor, clientId) }));
    if (json) return printJson({ data: rows });
    print(
      table(
        ["processor", "saved", "address of its notices"],
        rows.map(({ processor, updated_at, path }) => [processor, minuteOf(updated_at), path]),
      ),
    );
  });

const remove = (named: string, { client: slugOrId }: ClientOption): Promise<void> =>
  withPool(async (pool) => {
    const processor = knownName(named);
    const { client_id: clientId, slug } = await clientOf(pool, slugOrId);
    await transaction(pool, [clientId], async (tx) => {
      if (!(await removeProvider(tx, { clientId, processor })))
        throw new UsageError(`nothing is saved of ${processor} for ${slug}; see: tributary processors list`);
      const entity = `client:${clientId}`;
      await audited(tx, { action: "payment_processor.removed", client_id: clientId, entity, before: { processor } });
    });
    tell(`notices of ${processor} for ${slug} are refused in every process within a second`);
  });

export const processorCommands = (program: Command): void => {
  const processors = program
    .command("processors")
    .description("payment processors of a client: what their notices are signed with");
  processors
    .command("save <processor>")
    .description(`saves the signing secret that stdin brings (${providerNames.join(", ")}) and prints the address`)
    .requiredOption("--client <slug or id>", "whose account it is")
    .option("--metadata <ours=theirs...>", "the shop's own keys, e.g. order_id=orderNumber")
    .addHelpText(
      "before",
      'Examples:\n  $ printf %s "$STRIPE_WEBHOOK_SECRET" | tributary processors save stripe --client casa-verde\n' +
        '  $ printf "%s\\n" "$SECRET" "$ACCESS_TOKEN" | tributary processors save mercadopago --client casa-verde\n',
    )
    .action(save);
  processors
    .command("list")
    .description("the processors of a client, never their secrets")
    .requiredOption("--client <slug or id>", "whose")
    .option("--json", "as JSON")
    .action(list);
  processors
    .command("remove <processor>")
    .description("forgets a secret: its notices are refused from then on")
    .requiredOption("--client <slug or id>", "whose")
    .action(remove);
};
