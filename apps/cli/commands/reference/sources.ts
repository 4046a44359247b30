// External sources of a client, and the trial of a draft mapping beside the saved one on payloads
// that a source has sent.
import type { Command } from "commander";
import { z } from "zod";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { RefusalError } from "../../../../modules/base/refusal.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { pullSettings } from "../../../../modules/intake/pulls/drivers/drivers.ts";
import { changeSource } from "../../../../modules/intake/sources/change.ts";
import { createSource, type NewSource } from "../../../../modules/intake/sources/create.ts";
import { readSource } from "../../../../modules/intake/sources/open-source.ts";
import { rotateKey } from "../../../../modules/intake/sources/rotate-key.ts";
import type { SavedSource } from "../../../../modules/intake/sources/save-source.ts";
import {
  mappingFields,
  sourceFields,
  sourceSecrets,
  sourceState,
} from "../../../../modules/intake/sources/source-fields.ts";
import { sourceRows } from "../../../../modules/intake/sources/source-reads.ts";
import { readSourceId } from "../../../../modules/intake/sources/sources.ts";
import type { MappingTrial } from "../../../../modules/intake/sources/try-mapping.ts";
import { trySource } from "../../../../modules/intake/sources/try-source.ts";
import { keyring, publicHosts } from "../../config.ts";
import { jsonIn } from "../../json-in.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { inWork, operatorAct } from "../../work.ts";

const shape = z.strictObject({
  id: z.string().optional(),
  client_id: z.int().min(1).optional(),
  ...z.object({ ...sourceFields, ...sourceSecrets, state: sourceState, pull: pullSettings.nullable() }).partial().shape,
});
const draft = z.strictObject({
  mapping: mappingFields.mapping,
  constants: mappingFields.constants.optional(),
  event_names: mappingFields.event_names.optional(),
});

/** Throws UsageError with the place of each fault. */
const checked = <S extends z.ZodType>(schema: S, given: unknown): z.output<S> => {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new UsageError(
    parsed.error.issues.map(({ path, message }) => `/${path.map(String).join("/")}: ${message}`).join("\n"),
  );
};

const unknown = (id: string): UsageError => new UsageError(`there is no source ${id}; see: tributary sources list`);

/** Runs a use case about a source. Throws UsageError for an unknown id. */
const withSource = <Result>(
  id: string,
  useCase: (work: Work, sourceId: number) => Promise<Result>,
  settings: { readonly isSaved?: boolean } = {},
): Promise<Result> => {
  const sourceId = readSourceId(id);
  if (sourceId === undefined) throw unknown(id);
  return withPool((pool) =>
    inWork(pool, operatorAct(actorOf()), (work) => useCase(work, sourceId), settings).catch((error: unknown) => {
      const isMissing = error instanceof RefusalError && error.refusals.some(({ kind }) => kind === "missing");
      throw isMissing ? unknown(id) : error;
    }),
  );
};

const COLUMNS = [
  ...["id", "client_id", "slug", "name", "kind", "mode", "state", "mapping", "constants", "event_names", "allow_ips"],
  ...["unsigned", "unsigned_money", "pull", "has_secret", "has_key", "last_pull_at", "version"],
];

const list = ({ client: slugOrId, json }: { client?: string; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const client_id = slugOrId === undefined ? undefined : (await clientOf(pool, slugOrId)).client_id;
    const { rows } = await inWork(pool, operatorAct(actorOf()), ({ tx, scope: { clients } }) =>
      pageOfRows(tx, sourceRows({ client_id }), { names: COLUMNS, sort: "name", clients }, { limit: 1_000 }),
    );
    const shown = rows.map((row) => ({ ...row, id: `src_${row.id}` }) as Readonly<Record<string, any>>);
    if (json) return printJson({ data: shown });
    print(
      table(
        ["id", "client", "slug", "kind", "state", "signed", "key", "last pull", "name"],
        shown.map((row) => [
          ...[row.id, row.client_id, row.slug, row.kind, row.state, signedText(row)],
          ...[row.has_key ? "yes" : "no", minuteOf(row.last_pull_at), row.name],
        ]),
      ),
    );
  });

/** Whether the payloads of a source are signed, or why they need not be. */
const signedText = ({ kind, has_secret, unsigned, unsigned_money }: Readonly<Record<string, any>>): string => {
  if (has_secret) return "yes";
  if (kind !== "generic") return "no";
  if (unsigned === null) return "no, not chosen";
  return unsigned_money ? "no, with money" : "no, without money";
};

const show = (id: string): Promise<void> =>
  withSource(id, async (work, sourceId) => {
    const {
      source_id: _,
      version: __,
      has_secret: ___,
      has_pull_secret: ____,
      ...source
    } = await readSource(work, sourceId);
    printJson({ id, ...source });
  });

const save = async (file: string, { yes = false }: { yes?: boolean }): Promise<void> => {
  const input = checked(shape, await jsonIn(file));
  const saving = input.id === undefined ? created(input, yes) : changed(input.id, input, yes);
  const { before, after } = await saving.catch((error: unknown) => {
    if (!(error instanceof RefusalError)) throw error;
    throw new CommandRefused(
      `nothing was saved: ${error.refusals.map(({ path, message }) => `${path}: ${message}`).join("; ")}`,
    );
  });
  const changes = Object.entries(after).flatMap(([name, value]) => {
    const [from, to] = [JSON.stringify(before?.[name as keyof SavedSource]), JSON.stringify(value)];
    return from === to || name === "source_id" ? [] : [`  ${name}: ${from === undefined ? "" : `${from} -> `}${to}`];
  });
  print([before === undefined ? "a new source" : input.id, ...changes].join("\n"));
  if (yes) tell(`saved as src_${after.source_id}, in force in every process within a second`);
  else tell("nothing was saved yet: the same command with --yes saves it");
};

type Input = z.output<typeof shape>;
interface SavedPair {
  readonly before: SavedSource | undefined;
  readonly after: SavedSource;
}

const changed = (id: string, input: Input, isSaved: boolean): Promise<SavedPair> =>
  withSource(
    id,
    async (work, source_id) => {
      const { id: _, client_id: __, slug, secret, pull_secret, ...given } = input;
      const before = await readSource(work, source_id);
      if (slug !== undefined && slug !== before.slug)
        throw new UsageError("/slug: stays what it is; its events are named by it");
      const patch = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
      const change = { source_id, patch, secrets: { secret, pull_secret } };
      return { before, after: await changeSource(work, keyring(), change) };
    },
    { isSaved },
  );

const created = ({ id: _, ...given }: Input, isSaved: boolean): Promise<SavedPair> => {
  const { client_id, slug, name, kind } = given;
  if (client_id === undefined || slug === undefined || name === undefined || kind === undefined)
    throw new UsageError("a new source needs client_id, slug, name and kind; a known one is named by its id");
  const none = { mode: null, state: "draft", mapping: {}, constants: {}, event_names: {}, allow_ips: [], pull: null };
  const choices = { unsigned: null, unsigned_money: false };
  const source = { ...none, ...choices, ...given } as NewSource;
  return withPool(async (pool) => {
    await clientOf(pool, String(client_id));
    const make = (work: Work) => createSource(work, keyring(), source);
    return { before: undefined, after: await inWork(pool, operatorAct(actorOf()), make, { isSaved }) };
  });
};

const rotate = async (id: string): Promise<void> => {
  const { ingest } = await publicHosts();
  const { url } = await withSource(id, (work, sourceId) => rotateKey(work, sourceId, ingest));
  print(url);
  tell("on the ingest host; it is not shown again, and the former key opens nothing within a second");
};

const tryDraft = async (id: string, file: string, { json }: { json?: boolean }): Promise<void> => {
  const mapping = checked(draft, await jsonIn(file));
  const results = await withSource(id, (work, source_id) => trySource(work, keyring(), { source_id, draft: mapping }));
  if (json) return printJson({ results });
  if (results.length === 0) return tell("it has sent nothing within 48 hours");
  print(results.map(sideBySide).join("\n\n"));
};

/** Prints a payload with each field as the saved mapping and as the draft reads it. */
const sideBySide = ({ payload_id, received_at, event, saved, field, path, found, hint }: MappingTrial): string => {
  const names = [...new Set([...Object.keys(saved ?? {}), ...Object.keys(event ?? {})])];
  const rows = names.map((name) => {
    const [now, then] = [saved?.[name] ?? null, event?.[name] ?? null];
    return [name, now, then, now === then ? "" : "differs"];
  });
  const head = `payload ${payload_id}, ${new Date(received_at).toISOString()}`;
  const refused = event === null ? [`the draft refuses it: ${field} at ${path ?? "no path"}: ${found}; ${hint}`] : [];
  return [head, ...refused, table(["field", "saved mapping", "draft", ""], rows)].join("\n");
};

const EXAMPLES = `Examples:
  $ echo '{"client_id": 1, "slug": "my-network", "name": "My network", "kind": "postback_network", "state": "active",
      "mapping": {"event_name": "event", "dedup_key": "id", "value": "sale.amount", "currency": "sale.currency"}}' \\
      | tributary sources save - --yes
  $ tributary sources rotate src_1                  # the address with its key, once
  $ echo '{"mapping": {"event_name": "type", "dedup_key": "/order/id"}}' | tributary sources try src_1 -
`;

export const sourceCommands = (program: Command): void => {
  const sources = program
    .command("sources")
    .description("external sources: networks, relays, apps and webhooks that send events of a client")
    .addHelpText("before", EXAMPLES);
  sources
    .command("list")
    .description("all sources, never their secrets")
    .option("--client <slug or id>", "of one client")
    .option("--json", "as JSON")
    .action(list);
  sources.command("show <id>").description("one as JSON, as `save` takes it").action(show);
  sources
    .command("save <file>")
    .description("shows what a JSON file (or - for stdin) would make or change; --yes saves it")
    .option("--yes", "save it")
    .addHelpText("before", EXAMPLES)
    .action(save);
  sources
    .command("try <id> <file>")
    .description("a draft mapping beside the saved one, on the newest 20 payloads of 48 hours; writes nothing")
    .option("--json", "as JSON")
    .addHelpText("before", EXAMPLES)
    .action(tryDraft);
  sources.command("rotate <id>").description("another key of its address, shown once").action(rotate);
};
