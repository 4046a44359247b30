// Takes the oldest marks and has their minutes computed, then their hours. A mark is cleared only
// if it has not moved meanwhile.

import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import { tryLockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { bigint, type Columns, givenRows, int, type StoredRow, time } from "../../../infra/postgres/columns.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { markColumns, type StoredMark } from "../../../sinks/rollup-marks/table.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Backlog } from "../../base/outbox/outbox.ts";

/**
 * A minute of a client whose rollups have to be computed; `sequence` becomes the version of the
 * result.
 */
export type RollupMark = StoredMark;
/** An hour whose minutes are computed and whose dimensions and repeats are not. */
export type RollupHour = StoredRow<typeof hourColumns>;
const hourColumns = { client_id: int, hour: time, sequence: bigint };

const oldest = `
with hours as (
  select client_id, date_trunc('hour', minute) as hour from rollup_marks group by 1, 2 order by min(sequence) limit $1
)
select client_id, minute, sequence, clock_timestamp() as read_at
from rollup_marks join hours using (client_id) where minute >= hour and minute < hour + interval '1 hour'
order by client_id, minute`;

const isAwake = `not exists (
  select from unnest($1::int[], $2::float8[]) as resting (client_id, hour)
  where resting.client_id = rollup_hours.client_id and to_timestamp(resting.hour / 1000) = rollup_hours.hour)`;
const oldestHours = `
select client_id, hour, sequence, clock_timestamp() as read_at from rollup_hours
where ${isAwake} order by marked_at, client_id, hour limit $3`;

/**
 * Deletes the computed rows from `table`. A row whose sequence moved during the computation stays,
 * with its waiting time counted from when it was read.
 */
const settledIn = (table: string, key: string, columns: Columns, noted = ""): string => `
with given as (select * from ${givenRows(columns)}),${noted}
  cleared as (
    delete from ${table} as mark using given
    where mark.client_id = given.client_id and mark.${key} = to_timestamp(given.${key} / 1000.0)
    and mark.sequence = given.sequence
  )
update ${table} as mark set marked_at = $2 from given
where mark.client_id = given.client_id and mark.${key} = to_timestamp(given.${key} / 1000.0)
and mark.sequence <> given.sequence`;

/** Queues the hours of these minutes, waiting since their minutes did. */
const noted = `
  noted as (
    insert into rollup_hours (client_id, hour, sequence, marked_at)
    select mark.client_id, date_trunc('hour', mark.minute), max(given.sequence), min(mark.marked_at)
    from rollup_marks as mark join given
      on mark.client_id = given.client_id and mark.minute = to_timestamp(given.minute / 1000.0)
    group by 1, 2
    on conflict (client_id, hour) do update set sequence = greatest(rollup_hours.sequence, excluded.sequence)
  ),`;
const settled = settledIn("rollup_marks", "minute", markColumns, noted);
const settledHours = settledIn("rollup_hours", "hour", hourColumns);

interface MarkTurn<Mark> {
  readonly lock: string;
  readonly query: readonly [text: string, values: readonly unknown[]];
  readonly settled: string;
  readonly work: (marks: readonly Mark[]) => Promise<void>;
}

/**
 * Runs `work` on the oldest marks, one caller at a time over all processes: another one gets
 * "busy". Returns the number of marks. Throws what `work` throws, and all marks then stay.
 * Known gap: a caller that lost its connection, and with it the lock, while a statement of `work`
 * still runs may write under an old mark after its successor has read. A group that became empty in
 * these seconds then shows its old counts until its minute is touched again.
 */
const take = <Mark extends { readonly sequence: bigint }>(
  pool: Pool,
  { lock, query: [text, values], settled, work }: MarkTurn<Mark>,
): Promise<number | "busy"> =>
  transaction(
    pool,
    null,
    async (tx) => {
      if (!(await tryLockUntilCommit(tx, lock))) return "busy";
      const { rows } = await tx.query<Mark & { read_at: UnixMs }>(text, [...values]);
      if (rows.length === 0) return 0;
      await work(rows);
      const given = rows.map((row) => ({ ...row, sequence: row.sequence.toString() }));
      await tx.query(settled, [JSON.stringify(given), new Date(rows[0]!.read_at)]);
      return rows.length;
    },
    { role: "tributary_keeper" },
  );

/**
 * Passes the marks of the `hours` client-hours that wait longest to `work`, all minutes of an hour
 * together. Once done, the marks are cleared and their hours queued. Otherwise as `take`.
 */
export const takeMarks = (
  pool: Pool,
  hours: number,
  work: (marks: readonly RollupMark[]) => Promise<void>,
): Promise<number | "busy"> => take(pool, { lock: "tributary.rollups", query: [oldest, [hours]], settled, work });

/** Hours that are left for a later turn. */
export type RestingHours = readonly Omit<RollupHour, "sequence">[];
const listsOf = (resting: RestingHours) => [resting.map(({ client_id }) => client_id), resting.map(({ hour }) => hour)];

/**
 * Passes the `most` hours that wait longest to `work`, except resting ones. Otherwise as `take`.
 */
export const takeHours = (
  pool: Pool,
  { most, resting = [] }: { readonly most: number; readonly resting?: RestingHours },
  work: (hours: readonly RollupHour[]) => Promise<void>,
): Promise<number | "busy"> =>
  take(pool, {
    lock: "tributary.rollups.hours",
    query: [oldestHours, [...listsOf(resting), most]],
    settled: settledHours,
    work,
  });

const waiting = (pool: Pool, marked: string, values: readonly unknown[] = []): Promise<Backlog> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const text = `
        select count(*)::int as count, coalesce(extract(epoch from clock_timestamp() - min(marked_at)), 0)::float8
          as seconds
        from (${marked}) as marked`;
      return (await tx.query<Backlog>(text, [...values])).rows[0]!;
    },
    { role: "tributary_keeper", isReadOnly: true },
  );

/**
 * Counts waiting minutes, and devices that changed their consent, with the age of the oldest; the
 * age of counts follows from it.
 */
export const waitingMarks = (pool: Pool): Promise<Backlog> => waiting(pool, marks);
const marks = "select marked_at from rollup_marks union all select marked_at from consent_marks";

/** Counts hours that wait after their minutes were computed, except resting ones. */
export const waitingHours = (pool: Pool, resting: RestingHours = []): Promise<Backlog> =>
  waiting(pool, `select marked_at from rollup_hours where ${isAwake}`, listsOf(resting));

/** Counts everything that waits. Until it is zero, a rollup may still change. */
export const waitingRollups = (pool: Pool): Promise<Backlog> =>
  waiting(pool, `${marks} union all select marked_at from rollup_hours`);

const ASKED_EVERY_MS = 250;

/**
 * Resolves with true once every marked minute and its hour are computed, with false when that takes
 * longer than `withinMs`.
 */
export const untilRollupsComputed = async (pool: Pool, withinMs: number): Promise<boolean> => {
  const end = performance.now() + withinMs;
  while ((await waitingRollups(pool)).count > 0) {
    if (performance.now() > end) return false;
    await sleep(ASKED_EVERY_MS);
  }
  return true;
};
