// External sources on the command line: who else sends or holds events of a client, and a draft
// mapping beside the saved one on what a source really sent.
import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import type pg from "pg";
import { z } from "zod";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../../../infra/runtime/refused.ts";
import { type AuditEntry, writeAudit } from "../../../../modules/base/audit/audit.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { pullSettings } from "../../../../modules/intake/pulls/drivers/drivers.ts";
import {
  changeSource,
  createSource,
  rotateSourceKey,
  type SavedSource,
  SourceRefused,
  sourceToChange,
} from "../../../../modules/intake/sources/save-source.ts";
import {
  mappingFields,
  sourceFields,
  sourceSecrets,
  sourceState,
} from "../../../../modules/intake/sources/source-fields.ts";
import { sourceRows } from "../../../../modules/intake/sources/source-reads.ts";
import { readSourceId } from "../../../../modules/intake/sources/sources.ts";
import { type Tried, tryMapping } from "../../../../modules/intake/sources/try-mapping.ts";
import { keyring } from "../../config.ts";
import { jsonIn } from "../../json-in.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";

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

const clientsOfSources = (
  pool: pg.Pool,
): Promise<readonly { readonly source_id: number; readonly client_id: number }[]> =>
  transaction(
    pool,
    null,
    async (tx) => (await tx.query("select source_id, client_id from sources order by source_id")).rows,
    { role: "tributary_edge", isReadOnly: true },
  );

/** In a transaction that sees its client. Throws UsageError when there is no such source. */
const withSource = async <T>(
  pool: pg.Pool,
  id: string,
  work: (tx: pg.PoolClient, source: SavedSource) => Promise<T>,
): Promise<T> => {
  const sourceId = readSourceId(id);
  const found = (await clientsOfSources(pool)).find((one) => one.source_id === sourceId);
  if (found === undefined) throw new UsageError(`there is no source ${id}; see: tributary sources list`);
  return transaction(pool, [found.client_id], async (tx) =>
    work(tx, (await sourceToChange(tx, found.source_id, [found.client_id]))!),
  );
};

const audited = (tx: pg.PoolClient, entry: AuditEntry): Promise<void> =>
  writeAudit(tx, { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null }, entry);

const idOf = ({ source_id }: Pick<SavedSource, "source_id">): string => `src_${source_id}`;

const COLUMNS = [
  ...["id", "client_id", "slug", "name", "kind", "mode", "state", "mapping", "constants", "event_names", "allow_ips"],
  ...["pull", "has_secret", "has_key", "last_pull_at", "version"],
];

const list = ({ client: slugOrId, json }: { client?: string; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const clients =
      slugOrId === undefined
        ? [...new Set((await clientsOfSources(pool)).map(({ client_id }) => client_id))]
        : [(await clientOf(pool, slugOrId)).client_id];
    const reading = { names: COLUMNS, sort: "name", clients };
    const { rows } = await transaction(pool, clients, (tx) =>
      pageOfRows(tx, sourceRows({}), reading, { limit: 1_000 }),
    );
    const shown = rows.map((row) => ({ ...row, id: `src_${row.id}` }) as Readonly<Record<string, any>>);
    if (json) return printJson({ data: shown });
    print(
      table(
        ["id", "client", "slug", "kind", "state", "signed", "key", "last pull", "name"],
        shown.map((row) => [
          ...[row.id, row.client_id, row.slug, row.kind, row.state, row.has_secret ? "yes" : "no"],
          ...[row.has_key ? "yes" : "no", minuteOf(row.last_pull_at), row.name],
        ]),
      ),
    );
  });

const show = (id: string): Promise<void> =>
  withPool((pool) =>
    withSource(pool, id, async (_tx, { source_id: _, version: __, ...source }) => printJson({ id, ...source })),
  );

/** A preview is undone by leaving the transaction. */
class NotSaved extends Error {}

const save = (file: string, { yes = false }: { yes?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const { id, client_id, secret, pull_secret, ...given } = checked(shape, await jsonIn(file));
    const secrets = { secret, pull_secret };
    const end = (before: SavedSource | undefined, after: SavedSource) => {
      const changes = Object.entries(after).flatMap(([name, value]) => {
        const [from, to] = [JSON.stringify(before?.[name as keyof SavedSource]), JSON.stringify(value)];
        return from === to || name === "source_id"
          ? []
          : [`  ${name}: ${from === undefined ? "" : `${from} -> `}${to}`];
      });
      print([before === undefined ? "a new source" : idOf(before), ...changes].join("\n"));
      if (!yes) throw new NotSaved();
      tell(`saved as ${idOf(after)}, in force in every process within a second`);
    };
    try {
      if (id === undefined) await created(pool, { client_id, given, secrets }, end);
      else
        await withSource(pool, id, async (tx, before) => {
          const after = await changeSource(tx, before, patchOf(given, before), secrets, keyring());
          await audited(tx, { ...entryOf("source.updated", before), before, after });
          end(before, after);
        });
    } catch (error) {
      if (error instanceof SourceRefused) throw new Refused(`nothing was saved: /${error.field}: ${error.message}`);
      if (!(error instanceof NotSaved)) throw error;
      tell("nothing was saved yet: the same command with --yes saves it");
    }
  });

type Given = Partial<Omit<z.output<typeof shape>, "id" | "client_id" | "secret" | "pull_secret">>;
type End = (before: undefined, after: SavedSource) => void;

const patchOf = (given: Given, before: SavedSource): Partial<SavedSource> => {
  if (given.slug !== undefined && given.slug !== before.slug)
    throw new UsageError("/slug: stays what it is; its events are named by it");
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
};

const created = async (
  pool: pg.Pool,
  { client_id, given, secrets }: { client_id: number | undefined; given: Given; secrets: object },
  end: End,
): Promise<void> => {
  const { slug, name, kind } = given;
  if (client_id === undefined || slug === undefined || name === undefined || kind === undefined)
    throw new UsageError("a new source needs client_id, slug, name and kind; a known one is named by its id");
  await clientOf(pool, String(client_id));
  const none = { mode: null, state: "draft", mapping: {}, constants: {}, event_names: {}, allow_ips: [], pull: null };
  await transaction(pool, [client_id], async (tx) => {
    const settings = { ...none, ...given } as Parameters<typeof createSource>[2];
    const made = await createSource(tx, client_id, settings, secrets, keyring());
    await audited(tx, { ...entryOf("source.created", made), after: settings });
    end(undefined, made);
  });
};

const entryOf = (action: string, source: SavedSource) => ({
  action,
  client_id: source.client_id,
  entity: `source:${idOf(source)}`,
});

const rotate = (id: string): Promise<void> =>
  withPool((pool) =>
    withSource(pool, id, async (tx, source) => {
      const key = await rotateSourceKey(tx, source);
      await audited(tx, entryOf("source.key_rotated", source));
      print(`/postback/external/${id}?key=${key}`);
      tell("on the ingest host; it is not shown again, and the former key opens nothing within a second");
    }),
  );

const tryDraft = (id: string, file: string, { json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const mapping = checked(draft, await jsonIn(file));
    const results = await withSource(pool, id, async (tx, source) => {
      const tried = await tryMapping(tx, source, mapping, keyring());
      await audited(tx, entryOf("source.tried", source));
      return tried;
    });
    if (json) return printJson({ results });
    if (results.length === 0) return tell("it has sent nothing within 48 hours");
    print(results.map(sideBySide).join("\n\n"));
  });

/** One payload: each field as the saved mapping reads it, and as the draft does. */
const sideBySide = ({ payload_id, received_at, event, saved, field, path, found, hint }: Tried): string => {
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
