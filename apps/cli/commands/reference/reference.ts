// Reads and saves reference data from a shell, by the use cases of the platform API.
import type { Command } from "commander";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { RefusalError } from "../../../../modules/base/refusal.ts";
import {
  idFieldOf,
  isKind,
  type Kind,
  type KnownRecord,
  kinds,
  newestRecords,
} from "../../../../modules/catalog/reference/newest-records.ts";
import type { Columns } from "../../../../modules/catalog/reference/problem.ts";
import { jsonIn } from "../../json-in.ts";
import { clientOf, withPool } from "../../pool.ts";
import { sentencesOf } from "../../refusals.ts";
import { operatorAct } from "../../work.ts";
import { type SavedRecord, saveRecords } from "./save-records.ts";

const kindOf = (given: string): Kind => {
  if (isKind(given)) return given;
  throw new UsageError(`${given} is none of ${kinds.join(", ")}`);
};

/** The fields that a list shows; `show` and --json have all of them. */
const COLUMNS: Readonly<Record<Kind, readonly string[]>> = {
  clients: ["name", "slug", "status", "currency", "plan"],
  segments: ["name", "active"],
  partners: ["name", "status", "client_ids", "referral_code"],
  campaigns: ["client_id", "name", "status", "starts_on", "ends_on", "archived"],
  links: ["campaign_id", "partner_id", "code", "status"],
  contracts: ["client_id", "partner_id", "segment", "event_type", "type", "rate", "effective_from", "effective_to"],
  rules: ["client_id", "name", "status", "priority", "then", "archived"],
};

const cell = (value: unknown): string | number | null =>
  value === null || value === undefined
    ? null
    : typeof value === "number" || typeof value === "string"
      ? value
      : JSON.stringify(value);

/** Returns the record in the form in which it is saved: with its id and its version. */
const shown = (kind: Kind, { key, version, record }: KnownRecord): Columns => ({
  ...(kind === "segments" ? {} : { [idFieldOf(kind)]: Number(key) }),
  ...record,
  version,
});

const recordsOf = (kind: Kind, keys?: readonly string[]): Promise<readonly KnownRecord[]> =>
  withPool((pool) => transaction(pool, null, (tx) => newestRecords(tx, kind, keys), { isReadOnly: true }));

const list = async (given: string, options: { client?: string; all?: boolean; json?: boolean }): Promise<void> => {
  const kind = kindOf(given);
  const client = options.client === undefined ? undefined : await withPool((pool) => clientOf(pool, options.client!));
  const found = await recordsOf(kind);
  // A link belongs to a client through its campaign.
  const campaigns =
    kind === "links" && client !== undefined
      ? new Set((await recordsOf("campaigns")).flatMap((one) => (isOf(one, client.client_id) ? Number(one.key) : [])))
      : undefined;
  const wanted = found.filter(
    (one) =>
      (options.all || !one.isArchived) &&
      (client === undefined || campaigns?.has(one.record.campaign_id) || isOf(one, client.client_id)),
  );
  if (options.json) return printJson({ data: wanted.map((one) => shown(kind, one)) });
  const columns = COLUMNS[kind];
  print(
    table(
      ["id", ...columns, "version"],
      wanted.map(({ key, record, version }) => [key, ...columns.map((name) => cell(record[name])), version]),
    ),
  );
  const left = found.filter(({ isArchived }) => isArchived).length;
  if (!options.all && left > 0) tell(`${left} archived or switched off: --all shows them too`);
};

const isOf = ({ clients }: KnownRecord, clientId: number): boolean => clients.includes(clientId);

const show = async (given: string, key: string): Promise<void> => {
  const kind = kindOf(given);
  const [found] = await recordsOf(kind, [key]);
  if (found === undefined)
    throw new UsageError(`none of the ${kind} has the id ${key}; see: tributary reference list ${kind} --all`);
  printJson(shown(kind, found));
};

const entriesIn = async (file: string): Promise<readonly unknown[]> => {
  const given = await jsonIn(file);
  const entries = (given as { data?: unknown } | null)?.data ?? given;
  return Array.isArray(entries) ? entries : [entries];
};

/** Returns a line for each field that changes. */
export const changesOf = ({
  before,
  after,
}: Pick<SavedRecord, "before"> & { readonly after: Columns }): readonly string[] =>
  Object.keys(after).flatMap((name) => {
    const [from, to] = [JSON.stringify(before?.[name]), JSON.stringify(after[name])];
    if (from === to) return [];
    return before === undefined ? `  ${name}: ${to}` : `  ${name}: ${from ?? "-"} -> ${to}`;
  });

interface SaveOptions {
  readonly yes?: boolean;
  readonly actor?: string;
  readonly json?: boolean;
}

const save = async (given: string, file: string, { yes = false, actor, json }: SaveOptions): Promise<void> => {
  const kind = kindOf(given);
  const act = operatorAct(actorOf(actor));
  const entries = await entriesIn(file);
  const { saved, actsFrom } = await withPool((pool) => saveRecords(pool, kind, entries, { act, isSaved: yes })).catch(
    (error: unknown) => {
      if (!(error instanceof RefusalError)) throw error;
      throw new CommandRefused(`nothing was saved:\n${sentencesOf(error).join("\n")}`);
    },
  );
  if (json)
    return printJson({
      saved: yes,
      acts_from: yes && actsFrom !== undefined ? new Date(actsFrom).toISOString() : null,
      data: saved.map(({ after }) => shown(kind, after)),
    });
  for (const one of saved) {
    const changes = changesOf({ before: one.before, after: one.after.record });
    const id = one.isNew && !yes ? "a new one" : one.key;
    print([`${kind} ${id}${changes.length === 0 ? ": nothing changes" : ""}`, ...changes].join("\n"));
  }
  if (yes && actsFrom === undefined) tell("nothing was to be saved: it is so already");
  else if (yes) tell(`saved; it acts on what is received from ${new Date(actsFrom!).toISOString()} on`);
  else tell("nothing was saved yet: the same command with --yes saves it");
};

const EXAMPLES = `Examples:
  $ tributary reference list contracts --client aurora-music
  $ tributary reference show contracts 3
  $ tributary reference show contracts 3 > contract.json
  $ tributary reference save contracts contract.json          # what would change
  $ tributary reference save contracts contract.json --yes
  $ echo '{"partner_id": 1, "client_id": 1, "event_type": "purchase", "type": "percent", "rate": "12.5",
      "effective_from": "2026-12-01"}' | tributary reference save contracts - --yes
  $ echo '{"campaign_id": 1, "partner_id": 2, "code": "spring-ana"}' | tributary reference save links - --yes
  $ echo '{"rule_id": 4, "status": "inactive"}' | tributary reference save rules - --yes

An entry with an id changes the fields that it gives and keeps the rest; one without makes a new record. Several are
saved together or not at all. What the platform API refuses is refused here, in the same words (exit 3). Every save is
in the audit of the platform API, and acts about two seconds later.
`;

export const referenceCommands = (program: Command): void => {
  const reference = program
    .command("reference")
    .description(`shows and saves ${kinds.join(", ")}`)
    .addHelpText("before", EXAMPLES);
  reference
    .command("list <kind>")
    .description("the newest version of each")
    .option("--client <slug or id>", "of one client")
    .option("--all", "archived ones too")
    .option("--json", "as JSON")
    .addHelpText("before", EXAMPLES)
    .action(list);
  reference
    .command("show <kind> <id>")
    .description("one of them as JSON, as `save` takes it; a segment is <client id>:<code>")
    .addHelpText("before", EXAMPLES)
    .action(show);
  reference
    .command("save <kind> <file>")
    .description("shows what a JSON file (or - for stdin) would change; --yes saves it")
    .option("--yes", "save it")
    .option("--actor <e-mail>", "who saves it, beside the account of this machine")
    .option("--json", "as JSON")
    .addHelpText("before", EXAMPLES)
    .action(save);
};
