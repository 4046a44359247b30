// Takes the oldest marks, has their minutes computed, and clears each mark only if it has not moved
// meanwhile.

import type { Pool } from "pg";
import { tryLockUntilCommit } from "../../infra/postgres/advisory-lock.ts";
import { givenRows } from "../../infra/postgres/columns.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { markColumns, type StoredMark } from "../../sinks/rollup-marks/table.ts";
import type { UnixMs } from "../../stream/flow.ts";

/** A minute of a client whose rollups wait; `sequence` becomes the version of what is computed. */
export type RollupMark = StoredMark;

const oldest = `
with hours as (
  select client_id, date_trunc('hour', minute) as hour from rollup_marks group by 1, 2 order by min(sequence) limit $1
)
select client_id, minute, sequence, clock_timestamp() as read_at
from rollup_marks join hours using (client_id) where minute >= hour and minute < hour + interval '1 hour'
order by client_id, minute`;

/** A mark that moved while its minute was computed stays, and waits since it was read. */
const settled = `
with given as (select * from ${givenRows(markColumns)}),
  cleared as (
    delete from rollup_marks as mark using given
    where mark.client_id = given.client_id and mark.minute = to_timestamp(given.minute / 1000.0)
    and mark.sequence = given.sequence
    returning mark.client_id
  ),
  moved as (
    update rollup_marks as mark set marked_at = $2 from given
    where mark.client_id = given.client_id and mark.minute = to_timestamp(given.minute / 1000.0)
    and mark.sequence <> given.sequence
    returning mark.client_id
  )
select (select count(*) from cleared)::int as cleared, (select count(*) from moved)::int as moved`;

/**
 * Hands the marks of the `hours` client-hours that wait longest to `work`, all minutes of an hour
 * together, and settles them when it is done. One caller at a time, whatever processes run: another
 * answers "busy". Answers the number of marks that were handed over; throws what `work` threw, and
 * all of them stay.
 *
 * Known gap: a caller that lost its connection (and so the lock) while a statement of `work` goes
 * on may write under an old mark after its successor has looked; a group that emptied in these
 * seconds then shows its old counts until its minute is touched again.
 */
export const takeMarks = (
  pool: Pool,
  hours: number,
  work: (marks: readonly RollupMark[]) => Promise<void>,
): Promise<number | "busy"> =>
  transaction(
    pool,
    null,
    async (tx) => {
      if (!(await tryLockUntilCommit(tx, "tributary.rollups"))) return "busy";
      const { rows } = await tx.query<RollupMark & { read_at: UnixMs }>(oldest, [hours]);
      if (rows.length === 0) return 0;
      await work(rows);
      const given = rows.map(({ client_id, minute, sequence }) => ({
        client_id,
        minute,
        sequence: sequence.toString(),
      }));
      await tx.query(settled, [JSON.stringify(given), new Date(rows[0]!.read_at)]);
      return rows.length;
    },
    { role: "tributary_keeper" },
  );

export interface Waiting {
  readonly count: number;
  /** Of the one that waits longest; 0 when none does. */
  readonly seconds: number;
}

/** How many minutes and devices that chose again wait, and for how long. */
export const waitingMarks = (pool: Pool): Promise<Waiting> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<Waiting>(sql`
        select count(*)::int as count, coalesce(extract(epoch from clock_timestamp() - min(marked_at)), 0)::float8
          as seconds
        from (select marked_at from rollup_marks union all select marked_at from consent_marks) as marked`);
      return rows[0]!;
    },
    { role: "tributary_keeper", isReadOnly: true },
  );

const ASKED_EVERY_MS = 250;

/** Until every marked minute is computed; false when that takes longer. */
export const untilRollupsComputed = async (pool: Pool, withinMs: number): Promise<boolean> => {
  const end = performance.now() + withinMs;
  while ((await waitingMarks(pool)).count > 0) {
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, ASKED_EVERY_MS));
  }
  return true;
};
