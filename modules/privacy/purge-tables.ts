// Ends the retention of tables of Postgres: events in apps that earned nothing go, and rows by
// which money is explained lose their visitor.
import type { Pool } from "pg";
import { type Sql, sql, transaction } from "../../infra/postgres/sql.ts";
import type { ClientRetention } from "../../sinks/archive/purge.ts";
import { keptSince } from "../../sinks/archive/retention.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { startOfDay } from "./purge-events.ts";
import { isFreeAppEvent, isScrubbed, scrubbedName } from "./scrub.ts";

const keeper = { role: "tributary_keeper" } as const;
/** Rows that one statement looks at. */
const AT_ONCE = 2_000;

/** A row of a table, in the order of its index by age. */
interface RowPlace {
  readonly occurred_at: UnixMs;
  readonly event_id: string;
}
/** Where a turn ended. The next one goes on there, and the next day begins at the first. */
export interface TablesPlace {
  readonly clientId: number;
  readonly step: number;
  readonly after: RowPlace | null;
}
export interface TablesPurge {
  /** Rows that were deleted or lost their visitor. */
  readonly rows: number;
  /** Null: everything was looked at. */
  readonly stoppedAt: TablesPlace | null;
}

interface Window {
  readonly clientId: number;
  readonly before: Date;
  readonly after: RowPlace | null;
  readonly atOnce: number;
}
interface Stretch {
  readonly rows: number;
  /** Null: this was the last one. */
  readonly after: RowPlace | null;
}
type Step = (pool: Pool, window: Window) => Promise<Stretch>;

/** Rows of a table in the order of their age, read by an index that holds young rows too. */
const walked =
  (table: Sql, changes: (ids: readonly string[], clientId: number) => readonly Sql[]): Step =>
  (pool, { clientId, before, after, atOnce }) =>
    transaction(
      pool,
      null,
      async (tx) => {
        const behind =
          after === null ? sql`true` : sql`(occurred_at, event_id) > (${at(after)}, ${after.event_id}::uuid)`;
        const { rows: seen } = await tx.query<RowPlace & { readonly is_done: boolean }>(sql`
          select occurred_at, event_id, ${isScrubbed(sql`did`)} as is_done from ${table}
          where client_id = ${clientId} and occurred_at < ${before} and ${behind}
            and occurred_at >= ${after === null ? new Date(0) : at(after)}
          order by occurred_at, event_id limit ${atOnce}`);
        const due = seen.flatMap(({ event_id, is_done }) => (is_done ? [] : [event_id]));
        let rows = 0;
        if (due.length > 0) for (const change of changes(due, clientId)) rows += (await tx.query(change)).rowCount ?? 0;
        const last = seen.at(-1);
        return { rows, after: seen.length < atOnce || last === undefined ? null : last };
      },
      keeper,
    );
const at = ({ occurred_at }: RowPlace): Date => new Date(occurred_at);

const sales = walked(sql`product_sales`, (ids, clientId) => [
  sql`update product_sales set did = ${scrubbedName}
    where client_id = ${clientId} and event_id = any (${ids}::uuid[])`,
]);

const appEvents = walked(sql`app_events`, (ids, clientId) => [
  sql`delete from app_events
    where client_id = ${clientId} and event_id = any (${ids}::uuid[]) and ${isFreeAppEvent}`,
  sql`update app_events set did = ${scrubbedName}
    where client_id = ${clientId} and event_id = any (${ids}::uuid[])`,
]);

/** An index holds the conversions that are due alone, so each stretch begins at the oldest. */
const customers: Step = async (pool, { clientId, before, atOnce }) => {
  const customer = sql`customer`;
  const rows = await transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query(sql`
          update conversions set customer = ${scrubbedName}
          where client_id = ${clientId} and conversion_id = any (array(
            select conversion_id from conversions
            where client_id = ${clientId} and occurred_at < ${before}
              and customer <> '' and not ${isScrubbed(customer)}
            order by occurred_at limit ${atOnce}))`)
      ).rowCount ?? 0,
    keeper,
  );
  return { rows, after: rows < atOnce ? null : { occurred_at: 0, event_id: "" } };
};

const steps: readonly Step[] = [sales, appEvents, customers];

/**
 * Looks at each table of each client, from `from` on. By whole days of the event, in UTC. Two
 * keepers need no lock: what both do is done once. Amounts and credits stay, so no figure moves.
 */
export const purgeTables = async (
  pool: Pool,
  clients: readonly ClientRetention[],
  { now, from = null, isClosing = () => false, atOnce = AT_ONCE }: TablesPurgeSettings,
): Promise<TablesPurge> => {
  let rows = 0;
  for (const { clientId, months } of clients.toSorted((a, b) => a.clientId - b.clientId)) {
    if (from !== null && clientId < from.clientId) continue;
    const before = new Date(startOfDay(keptSince(now, months)));
    const isResumed = from?.clientId === clientId;
    for (let step = isResumed ? from.step : 0; step < steps.length; step += 1) {
      let after = isResumed && step === from.step ? from.after : null;
      do {
        if (isClosing()) return { rows, stoppedAt: { clientId, step, after } };
        const done = await steps[step]!(pool, { clientId, before, after, atOnce });
        rows += done.rows;
        after = done.after;
      } while (after !== null);
    }
  }
  return { rows, stoppedAt: null };
};

export interface TablesPurgeSettings {
  readonly now: UnixMs;
  readonly from?: TablesPlace | null;
  readonly isClosing?: () => boolean;
  readonly atOnce?: number;
}
