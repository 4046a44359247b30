// Finds, retries and discards letters for people: one, many by a filter, or all.
import type { Pool, PoolClient } from "pg";
import type { LetterKind } from "../../../edges/dead-letters.ts";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Letter, LetterState } from "./letter.ts";
import { letterColumns } from "./letter-index.ts";

/** A field that is absent filters nothing. */
export interface LetterFilter {
  readonly ids?: readonly string[];
  readonly kind?: LetterKind;
  readonly states?: readonly LetterState[];
  readonly stage?: string;
  readonly code?: string;
  readonly client_id?: number;
  readonly event_id?: string;
  /** Every spelling of an order's id. */
  readonly order_ids?: readonly string[];
  /** The last failure was at this time or later. */
  readonly since?: UnixMs;
}
/**
 * The clients whose letters row-level security shows; null: all letters, unreadable ones included,
 * which only operators may see.
 */
export type LetterScope = readonly number[] | null;

const scoped = <T>(
  pool: Pool,
  scope: LetterScope,
  work: (tx: PoolClient) => Promise<T>,
  isReadOnly = false,
): Promise<T> => transaction(pool, scope, work, { ...(scope === null && { role: "tributary_keeper" }), isReadOnly });

const OPEN: readonly LetterState[] = ["waiting", "retrying", "parked"];

const where = (filter: LetterFilter): Sql => {
  let condition = sql`true`;
  const and = (part: Sql): void => {
    condition = sql`${condition} and ${part}`;
  };
  if (filter.ids !== undefined) and(sql`letter_id = any (${filter.ids})`);
  if (filter.kind !== undefined) and(sql`kind = ${filter.kind}`);
  if (filter.states !== undefined) and(sql`state = any (${filter.states})`);
  if (filter.stage !== undefined) and(sql`stage = ${filter.stage}`);
  if (filter.code !== undefined) and(sql`code = ${filter.code}`);
  if (filter.client_id !== undefined) and(sql`client_id = ${filter.client_id}`);
  if (filter.event_id !== undefined) and(sql`event_id = ${filter.event_id}`);
  if (filter.order_ids !== undefined) and(sql`order_id = any (${filter.order_ids})`);
  if (filter.since !== undefined) and(sql`last_failed_at >= ${new Date(filter.since)}`);
  return condition;
};
const columns: Sql = { text: letterColumns, values: [] };

/** The last letter of the page before. */
export interface LetterCursor {
  readonly last_failed_at: UnixMs;
  readonly letter_id: string;
}

/** Returns at most `limit` letters, newest first. */
export const listLetters = (
  pool: Pool,
  filter: LetterFilter,
  { scope, limit, after }: { readonly scope: LetterScope; readonly limit: number; readonly after?: LetterCursor },
): Promise<readonly Letter[]> =>
  scoped(
    pool,
    scope,
    async (tx) => {
      const from =
        after === undefined
          ? sql`true`
          : sql`(last_failed_at, letter_id) < (${new Date(after.last_failed_at)}, ${after.letter_id})`;
      const { rows } = await tx.query<Letter>(
        sql`select ${columns} from dead_letters where ${where(filter)} and ${from}
          order by last_failed_at desc, letter_id desc limit ${limit}`,
      );
      return rows;
    },
    true,
  );

export interface LetterCount {
  readonly kind: LetterKind;
  readonly state: LetterState;
  readonly stage: string;
  readonly code: string;
  readonly count: number;
  readonly oldest: UnixMs;
}
/** Counts by kind, state, stage and code, the largest first. */
export const countLetters = (pool: Pool, filter: LetterFilter, scope: LetterScope): Promise<readonly LetterCount[]> =>
  scoped(
    pool,
    scope,
    async (tx) =>
      (
        await tx.query<LetterCount>(sql`
          select kind, state, stage, code, count(*)::int as count, min(first_failed_at) as oldest from dead_letters
            where ${where(filter)}
          group by 1, 2, 3, 4 order by 5 desc, 1, 2, 3, 4`)
      ).rows,
    true,
  );

export interface ToldFailure {
  readonly source: string;
  readonly code: string;
  readonly message: string;
  readonly failed_at: UnixMs;
}
/** Every failure of a letter, oldest first; for operators. */
export const failuresOf = async (pool: Pool, letterId: string): Promise<readonly ToldFailure[]> =>
  scoped(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<ToldFailure>(sql`
          select source_topic || '/' || source_partition || '@' || source_offset as source, code, message, failed_at
          from dead_letter_failures where letter_id = ${letterId} order by failed_at, source_offset`)
      ).rows,
    true,
  );

/** Makes waiting and parked letters due now; the keeper sends them. Returns their ids. */
export const makeDue = (pool: Pool, filter: LetterFilter, now: UnixMs): Promise<readonly string[]> =>
  scoped(pool, null, async (tx) => {
    const { rows } = await tx.query<{ letter_id: string }>(sql`
      update dead_letters set state = 'waiting', next_attempt_at = ${new Date(now)}
      where ${where(filter)} and state in ('waiting', 'parked') returning letter_id`);
    return rows.map(({ letter_id }) => letter_id);
  });

/**
 * Discards open letters for good. A letter that is being retried may still come through; if it
 * fails, it stays discarded. Returns their ids.
 */
export const discardOpen = (
  pool: Pool,
  filter: LetterFilter,
  by: { readonly actor: string; readonly reason: string; readonly now: UnixMs },
): Promise<readonly string[]> =>
  scoped(pool, null, async (tx) => {
    const { rows } = await tx.query<{ letter_id: string }>(sql`
      update dead_letters set state = 'discarded', next_attempt_at = null, lease_until = null,
        closed_at = ${new Date(by.now)},
        closed_by = ${by.actor}, close_reason = ${by.reason}
      where ${where(filter)} and state = any (${OPEN}) returning letter_id`);
    return rows.map(({ letter_id }) => letter_id);
  });
