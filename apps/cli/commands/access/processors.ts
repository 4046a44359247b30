// Payment processors of a client: what their notices are signed with. A secret comes by stdin, so
// that no list of processes and no shell's history shows it.
import { randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import type pg from "pg";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { UsageError } from "../../../../infra/runtime/refused.ts";
import { type AuditEntry, writeAudit } from "../../../../modules/audit/audit.ts";
import { actorOf } from "../../../../modules/operations/operations.ts";
import {
  removeProcessorWithin,
  savedProcessors,
  saveProcessorWithin,
} from "../../../../modules/postbacks/processor-settings.ts";
import { processorNames, processorOf } from "../../../../processors/admit/payments/processors.ts";
import { keyring } from "../../config.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";

interface Of {
  readonly client: string;
}
const LONGEST_SECRET = 1_000;

const audited = (tx: pg.PoolClient, entry: AuditEntry): Promise<void> =>
  writeAudit(tx, { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null }, entry);

const knownName = (name: string): string => {
  if (processorOf(name) === undefined) throw new UsageError(`${name} is none of ${processorNames.join(", ")}`);
  return name;
};

const secretIn = async (name: string): Promise<string> => {
  const secret = process.stdin.isTTY ? "" : (await text(process.stdin)).trim();
  if (secret === "" || secret.length > LONGEST_SECRET)
    throw new UsageError(
      `stdin: give the signing secret that ${name} shows, e.g. printf %s "$SECRET" | tributary processors save ${name}`,
    );
  return secret;
};

const save = (named: string, { client: slugOrId }: Of): Promise<void> =>
  withPool(async (pool) => {
    const processor = knownName(named);
    const secret = await secretIn(processor);
    const { client_id: clientId } = await clientOf(pool, slugOrId);
    await transaction(pool, [clientId], async (tx) => {
      await saveProcessorWithin(tx, { clientId, processor }, { secret }, keyring());
      const entity = `client:${clientId}`;
      await audited(tx, { action: "payment_processor.saved", client_id: clientId, entity, after: { processor } });
    });
    print(`/postback/${processor}?client_id=${clientId}`);
    tell("saved, in force in every process within a second; have its notices sent there, on the ingest host");
  });

const list = ({ client: slugOrId, json }: Of & { readonly json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const { client_id: clientId } = await clientOf(pool, slugOrId);
    const saved = await transaction(pool, [clientId], savedProcessors);
    const rows = saved.map((one) => ({ ...one, path: `/postback/${one.processor}?client_id=${clientId}` }));
    if (json) return printJson({ data: rows });
    print(
      table(
        ["processor", "saved", "path on the ingest host"],
        rows.map(({ processor, updated_at, path }) => [processor, minuteOf(updated_at), path]),
      ),
    );
  });

const remove = (named: string, { client: slugOrId }: Of): Promise<void> =>
  withPool(async (pool) => {
    const processor = knownName(named);
    const { client_id: clientId, slug } = await clientOf(pool, slugOrId);
    await transaction(pool, [clientId], async (tx) => {
      if (!(await removeProcessorWithin(tx, { clientId, processor })))
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
    .description(`saves the signing secret that stdin brings (${processorNames.join(", ")}) and prints the path`)
    .requiredOption("--client <slug or id>", "whose account it is")
    .addHelpText(
      "before",
      'Examples:\n  $ printf %s "$STRIPE_WEBHOOK_SECRET" | tributary processors save stripe --client casa-verde\n',
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
