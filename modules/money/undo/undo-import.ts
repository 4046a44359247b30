// Undoes an import: goes through its rows page by page and withdraws what each says of its order,
// with one decision for each; then the same row in another file is a new event.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { hit } from "#failpoint";
import { uuidOf } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { decisionOnLine } from "../../../processors/settle/decision-claim.ts";
import type { Line } from "../../../processors/settle/order.ts";
import type { Claim } from "../../../schemas/generated.ts";
import { ownersOf } from "../../../sinks/analytics/reads.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import type { TakenJob } from "../../base/jobs/jobs.ts";
import type { Report } from "../../base/jobs/work-off.ts";
import { freeUndone, type RowOfFile } from "../../intake/imports/run/claimed-rows.ts";
import type { UndoJob, UndoneRows, UndoTotals } from "../../intake/imports/undo-result.ts";
import { decisionMessages } from "../decisions/decision-messages.ts";
import { settledOf } from "../orders/order-lines.ts";
import { type RowInOrder, rowsInOrders } from "./rows-in-orders.ts";
import { withdrawalsOf } from "./withdrawals.ts";

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
/** No score reaches this value: an undo finds no fraud. */
const NEVER = 101;
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
 * import and its row; 2. settle processes each once; 3. the rows are free for other files; 4. the
 * totals in the row of the job. After a crash before 4 the page is done again: decisions that
 * settle has processed are not sent again and count by their outcome, and rows that are free stay
 * so.
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

const undoPage = async (context: Context, page: readonly RowOfFile[]): Promise<UndoTotals> => {
  const { ports, job, import_id } = context;
  const ids = page.map(({ event_id }) => event_id);
  const stored = await whenStored(context, ids);
  const rows = ids.filter((id) => stored.has(id));
  const idOf = (id: string): string => decisionId(context, id);
  const before = await settledOf(ports.pool, rows.map(idOf));
  const fresh = rows.filter((id) => !before.has(idOf(id)));
  const found = await rowsInOrders(ports, job.client_id, fresh);
  const claims = [...found].map(([id, row]) => claimFor(context, id, row));
  if (claims.length > 0) await ports.produce(decisionMessages(ports.wire, claims));
  hit("undo-decided");
  await whenAnswered(context, [...found.keys()].map(idOf));
  const undone = await countedRows(context, rows);
  await freeUndone(ports.pool, { import_id, client_id: job.client_id }, rows);
  hit("undo-freed");
  return { ...undone, not_stored: ids.length - rows.length };
};

/** One id for each row, so that a process that goes on makes the same decisions. */
const decisionId = ({ import_id }: Context, eventId: string): string => uuidOf("import-withdraw", import_id, eventId);

/** Counts the rows by what settle has answered, so that they count the same after a crash. */
const countedRows = async (context: Context, rows: readonly string[]): Promise<UndoTotals> => {
  const { ports, job, partner_id } = context;
  const idOf = (id: string): string => decisionId(context, id);
  const answers = await withdrawalsOf(ports, rows.map(idOf));
  const isLeft = (id: string): boolean => answers.get(idOf(id))?.isWithdrawn === false;
  const left = await rowsInOrders(ports, job.client_id, rows.filter(isLeft));
  const counts: Record<keyof UndoneRows, number> = { ...NOTHING };
  const sums = new Map<string, bigint>();
  for (const id of rows) {
    const answer = answers.get(idOf(id));
    const isWithdrawn = answer?.isWithdrawn === true;
    counts[isWithdrawn ? answer.was : stillOf(id, left.get(id)?.line, partner_id)] += 1;
    for (const [currency, minor] of answer?.taken ?? []) sums.set(currency, (sums.get(currency) ?? 0n) + minor);
  }
  return { ...counts, sums: Object.fromEntries([...sums].map(([currency, minor]) => [currency, String(minor)])) };
};

/** Why a row whose decision has changed nothing stays as it is. */
const stillOf = (eventId: string, line: Line | undefined, partnerId: number): keyof UndoneRows => {
  if (line === undefined) return "no_sale";
  const { event_id, partner_id, is_decided } = line;
  if (partner_id === null) return event_id === eventId ? "uncredited" : "copies";
  return is_decided && partner_id !== partnerId ? "decided" : "copies";
};

const claimFor = (context: Context, eventId: string, { order_key, event }: RowInOrder): Claim => {
  const { job, reason, at, import_id, partner_id } = context;
  const said = {
    kind: "take_back",
    ...{
      decision_id: decisionId(context, eventId),
      actor: job.job_id,
      reason,
      at,
      partner_id: null,
      campaign_id: null,
      flags: [],
      review_from: NEVER,
      reject_from: NEVER,
      withdraws: true,
    },
  } as const;
  const about = { ...event, import_id, partner_ref: String(partner_id) };
  return { ...decisionOnLine(job.client_id, about, said), order_key };
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
const whenAnswered = async ({ ports: { pool }, goOn }: Context, ids: readonly string[]): Promise<void> => {
  for (;;) {
    const answers = await settledOf(pool, ids);
    if (answers.size === ids.length) return;
    await goOn();
    await sleep(LOOK_MS);
  }
};
