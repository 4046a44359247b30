// Undoes an import: goes through its rows page by page and takes back each sale that it brought,
// with one decision for each.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { hit } from "#failpoint";
import { uuidOf } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { type Line, rowOf } from "../../../processors/settle/order.ts";
import type { Claim } from "../../../schemas/generated.ts";
import { ownersOf } from "../../../sinks/analytics/reads.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import type { TakenJob } from "../../base/jobs/jobs.ts";
import type { Report } from "../../base/jobs/work-off.ts";
import type { RowOfFile } from "../../intake/imports/run/claimed-rows.ts";
import type { UndoJob, UndoneRows, UndoTotals } from "../../intake/imports/undo-result.ts";
import { claimOf, linesOf, type PersonsDecision } from "../decisions/decide.ts";
import { decisionMessages } from "../decisions/decision-messages.ts";
import { type FoundLine, linesOfEvents } from "../orders/line-of-event.ts";
import { settledOf } from "../orders/order-lines.ts";
import { rememberedOrders } from "../orders/remembered-orders.ts";

export interface UndoPorts {
  readonly pool: Pool;
  readonly clickhouse: Clickhouse;
  readonly wire: Wire;
  readonly produce: Produce;
}

/** The progress for the process that continues the job. */
interface UndoCheckpoint {
  /** Rows up to this line are done. */
  readonly line: number;
  readonly undone: UndoTotals;
}
const NOTHING: UndoTotals = {
  ...{ taken_back: 0, uncredited: 0, copies: 0, decided: 0, no_sale: 0, not_stored: 0 },
  sums: {},
};

const PAGE_ROWS = 500;
const LOOK_MS = 500;
/** Rows of an import that has just ended are normally stored within seconds. */
const YOUNG_MS = 10 * 60_000;
const QUIET_MS = 15_000;

interface Context {
  readonly ports: UndoPorts;
  readonly job: TakenJob;
  readonly import_id: string;
  readonly partner_id: number;
  readonly reason: string;
  /** When the job was requested; the time of every decision. */
  readonly at: UnixMs;
  readonly endedAt: UnixMs;
  /** Extends the lease. Throws if another process has the job. */
  readonly goOn: () => Promise<void>;
}

/**
 * The order of durable effects: 1. the decisions of a page in `claims`, each with an id of the
 * import and its sale; 2. settle processes each once; 3. the totals in the row of the job. After a
 * crash before 3 the page is done again; decisions that settle has processed count by their
 * outcome.
 */
export const runUndo = async (ports: UndoPorts, job: TakenJob, report: Report): Promise<UndoTotals> => {
  const { import_id, reason } = job.input as UndoJob;
  const { client_id } = job;
  const [found] = await rowsOf<{ partner_id: number; accepted: number; ended_at: UnixMs; asked_at: UnixMs }>(
    ports.pool,
    client_id,
    sql`select partner_id, accepted::int as accepted, finished_at as ended_at,
        (select created_at from jobs where job_id = ${job.job_id}) as asked_at
      from imports where import_id = ${import_id} and client_id = ${client_id}`,
  );
  if (found === undefined) throw new Error(`there is no import ${import_id} of client ${client_id}`);
  const { partner_id, accepted: total } = found;
  let { line, undone } = (job.checkpoint ?? { line: 0, undone: NOTHING }) as UndoCheckpoint;
  let done = job.done;
  const goOn = () => report({ done, total });
  const context: Context = {
    ...{ ports, job, import_id, partner_id, goOn, at: found.asked_at, endedAt: found.ended_at },
    reason: `undo of ${import_id}: ${reason}`,
  };
  for (;;) {
    await goOn();
    const page = await rowsOf<RowOfFile>(
      ports.pool,
      client_id,
      sql`select event_id, line from import_rows
        where client_id = any (${[client_id]}::int[]) and import_id = ${import_id} and line > ${line}
        order by line limit ${PAGE_ROWS}`,
    );
    if (page.length === 0) return undone;
    undone = added(undone, await undoPage(context, page));
    hit("undo-answered");
    line = page.at(-1)!.line;
    done += page.length;
    await report({ done, total, checkpoint: { line, undone } satisfies UndoCheckpoint });
  }
};

const rowsOf = <Row extends object>(pool: Pool, clientId: number, query: ReturnType<typeof sql>): Promise<Row[]> =>
  transaction(pool, [clientId], async (tx) => (await tx.query<Row>(query)).rows, { isReadOnly: true });

const added = (one: UndoTotals, more: UndoTotals): UndoTotals => {
  const sums = new Map(Object.entries(one.sums));
  for (const [currency, minor] of Object.entries(more.sums))
    sums.set(currency, String(BigInt(sums.get(currency) ?? 0) + BigInt(minor)));
  const counts = (Object.keys(NOTHING) as (keyof UndoTotals)[]).filter(
    (name): name is keyof UndoneRows => name !== "sums",
  );
  const sum = Object.fromEntries(counts.map((name) => [name, one[name] + more[name]])) as unknown as UndoneRows;
  return { ...sum, sums: Object.fromEntries(sums) };
};

/** The state of one row of the page. */
interface RowState {
  readonly event_id: string;
  readonly named: FoundLine | undefined;
  readonly line: Line | undefined;
}

const undoPage = async (context: Context, page: readonly RowOfFile[]): Promise<UndoTotals> => {
  const { ports, job, goOn } = context;
  const ids = page.map(({ event_id }) => event_id);
  const stored = await whenStored(context, ids);
  const found = await linesNow(ports, job.client_id, [...stored]);
  const counter = await countedBy(context, found);
  const counts: Record<keyof UndoneRows, number> = { ...NOTHING };
  counts.not_stored = ids.length - stored.size;
  const decisions = new Map<string, { readonly claim: Claim; readonly line: Line }>();
  const before = await settledOf(
    ports.pool,
    found.map(({ line }) => (line === undefined ? "" : decisionId(context, line))).filter((id) => id !== ""),
  );
  for (const one of found) {
    const kind = whatOf(context, one, counter, before);
    if (kind !== "taken_back") counts[kind] += 1;
    else decisions.set(decisionId(context, one.line!), { claim: claimFor(context, one), line: one.line! });
  }
  const fresh = [...decisions].filter(([id]) => !before.has(id)).map(([, { claim }]) => claim);
  if (fresh.length > 0) await ports.produce(decisionMessages(ports.wire, fresh));
  hit("undo-decided");
  const answers = await whenAnswered(ports, [...decisions.keys()], goOn);
  const sums = new Map<string, bigint>();
  for (const [id, { line }] of decisions) {
    if (!answers.get(id)!.hasChanged) {
      counts.uncredited += 1;
      continue;
    }
    counts.taken_back += 1;
    sums.set(line.currency, (sums.get(line.currency) ?? 0n) + line.value_minor);
  }
  return { ...counts, sums: Object.fromEntries([...sums].map(([currency, minor]) => [currency, String(minor)])) };
};

/** One id for each sale, so that a repeated row or a copy makes no second decision. */
const decisionId = ({ import_id }: Context, { event_id }: Line): string => uuidOf("import-undo", import_id, event_id);

const whatOf = (
  context: Context,
  { event_id, line }: RowState,
  counter: ReadonlyMap<string, string>,
  before: ReadonlyMap<string, unknown>,
): keyof UndoneRows => {
  if (line === undefined) return "no_sale";
  if (before.has(decisionId(context, line))) return counter.get(line.event_id) === event_id ? "taken_back" : "copies";
  const { method } = rowOf(line).credit;
  const isOurs = line.event_id === event_id || (method === "upload" && line.partner_id === context.partner_id);
  if (!isOurs || counter.get(line.event_id) !== event_id) return "copies";
  if (line.partner_id === null) return "uncredited";
  return line.is_decided && line.partner_id !== context.partner_id ? "decided" : "taken_back";
};

/**
 * The row of the import that counts a sale: the one that made it, or else the first of its copies
 * in the file.
 */
const countedBy = async (
  { ports, job, import_id }: Context,
  found: readonly RowState[],
): Promise<ReadonlyMap<string, string>> => {
  const lines = [...new Map(found.flatMap(({ line }) => (line === undefined ? [] : [[line.event_id, line]]))).values()];
  const names = lines.flatMap(({ event_id, copied }) => [event_id, ...copied]);
  const own = await rowsOf<RowOfFile>(
    ports.pool,
    job.client_id,
    sql`select event_id, line from import_rows where client_id = any (${[job.client_id]}::int[])
      and import_id = ${import_id} and event_id = any (${names}::uuid[]) order by line`,
  );
  const among = (ids: readonly string[]) => own.find(({ event_id }) => ids.includes(event_id))?.event_id;
  return new Map(
    lines.flatMap(({ event_id, copied }) => {
      const row = among([event_id]) ?? among(copied);
      return row === undefined ? [] : [[event_id, row]];
    }),
  );
};

const linesNow = ({ pool, clickhouse }: UndoPorts, clientId: number, ids: readonly string[]): Promise<RowState[]> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      const named = (await linesOfEvents({ clickhouse, tx }, [clientId], ids)).map(([one]) => one);
      const keyOf = ({ order_key }: FoundLine) => `${clientId}:${order_key}`;
      const keys = [...new Set(named.flatMap((one) => (one === undefined ? [] : [keyOf(one)])))];
      const orders = await rememberedOrders(tx, keys);
      return ids.map((event_id, n) => {
        const one = named[n];
        const lines = one === undefined ? [] : linesOf({ line: one }, orders.get(keyOf(one))?.lines ?? []);
        return { event_id, named: one, line: lines[0] };
      });
    },
    { isReadOnly: true },
  );

const claimFor = (context: Context, { named, line }: RowState): Claim => {
  const { job, reason, at } = context;
  const { order_key, event } = named!;
  const decided: PersonsDecision = {
    ...{ decision_id: decisionId(context, line!), client_id: job.client_id, kind: "take_back", reason, at },
    ...{ actor: job.job_id, partner_id: null, campaign_id: null, subject: { line: { order_key, event, copy: null } } },
  };
  return claimOf(decided);
};

/** The given events that are stored, once all are stored or no more are expected. */
const whenStored = async (
  { ports: { clickhouse }, job: { client_id }, endedAt, goOn }: Context,
  ids: readonly string[],
): Promise<ReadonlySet<string>> => {
  let stored = new Set<string>();
  let heard = performance.now();
  for (;;) {
    const now = new Set((await ownersOf(clickhouse, scopeOf(client_id), ids)).map(({ event_id }) => event_id));
    if (now.size > stored.size) heard = performance.now();
    stored = now;
    const isQuiet = performance.now() - heard > QUIET_MS && Date.now() - endedAt > YOUNG_MS;
    if (stored.size === ids.length || isQuiet) return stored;
    await goOn();
    await sleep(LOOK_MS);
  }
};

/** Waits without a limit, because the decisions are in the log. */
const whenAnswered = async ({ pool }: UndoPorts, ids: readonly string[], goOn: Context["goOn"]) => {
  for (;;) {
    const answers = await settledOf(pool, ids);
    if (answers.size === ids.length) return answers;
    await goOn();
    await sleep(LOOK_MS);
  }
};
