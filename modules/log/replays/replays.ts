// Windows of the log that are written to the stores again: asked for, claimed by one lane at a
// time, moved on, ended.

import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * One partition's part of a window: [start, end), of which [skip_from, skip_to) was written by an
 * earlier lane since this replay was asked for.
 */
export interface Segment {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
  readonly skip_from: number;
  readonly skip_to: number;
}
/** By `placeOf`: the offset to go on from. */
export type Positions = Readonly<Record<string, number>>;
export const placeOf = ({ topic, partition }: { readonly topic: string; readonly partition: number }): string =>
  `${topic}-${partition}`;

export type ReplayState = "waiting" | "running" | "done" | "failed" | "cancelled";
export interface Replay {
  readonly replay_id: string;
  readonly state: ReplayState;
  readonly actor: string;
  readonly hours: number | null;
  readonly from_at: UnixMs;
  /** Null: up to what the log holds when the lane begins. */
  readonly to_at: UnixMs | null;
  readonly sinks: readonly string[];
  readonly met: Readonly<Record<string, Positions>>;
  /** Null until the lane begins. */
  readonly ranges: readonly Segment[] | null;
  readonly positions: Positions;
  readonly requeued: number;
  readonly skipped: number;
  readonly suppressed: number;
  /** Events that could not be read, or that no store would take; `errors` has the new ones. */
  readonly refused: number;
  readonly errors: readonly ReplayError[];
  readonly attempts: number;
  readonly created_at: UnixMs;
  readonly started_at: UnixMs | null;
  readonly moved_at: UnixMs | null;
  readonly ended_at: UnixMs | null;
}
export interface ReplayError {
  readonly file: string;
  readonly message: string;
}

/**
 * A lane that has not moved for so long may be taken over; it says that it lives every third of
 * this.
 */
export const leaseMs = 10_000;
/** The first of each kind tell enough. */
const ERRORS_KEPT = 100;

const columns = `replay_id, state, actor, hours, from_at, to_at, sinks, met, ranges, positions, requeued::float8,
  skipped::float8, suppressed::float8,
  refused::float8, errors, attempts, created_at, started_at, moved_at, ended_at`;
const lease = `clock_timestamp() + interval '${leaseMs} milliseconds'`;

const REPLAYS = "tributary.replays";
/** Requests and claims take turns, so that two calls at once find each other. */
const withAdvisoryLock = <T>(pool: Pool, work: (tx: PoolClient) => Promise<T>): Promise<T> =>
  transaction(pool, null, async (tx) => {
    await lockUntilCommit(tx, REPLAYS);
    return work(tx);
  });

export interface WantedReplay {
  readonly actor: string;
  readonly hours: number | null;
  readonly from: UnixMs;
  readonly to: UnixMs | null;
  readonly sinks: readonly string[];
}

/**
 * Asks for a window. One that covers it and has not begun is joined: its answer is the answer. One
 * that has begun is not, for what was lost behind its position, or came after it had decided where
 * to end, is nothing that it brings back: then the new one waits its turn, and remembers where the
 * lane stands now, since what that writes from here on need not be written again.
 */
export const requestReplay = (
  pool: Pool,
  wanted: WantedReplay,
): Promise<{ readonly replay_id: string; readonly isJoined: boolean }> =>
  transaction(pool, null, (tx) => requestReplayWithin(tx, wanted));

/** The same inside a transaction of the caller, which has to be short: others wait. */
export const requestReplayWithin = async (
  tx: PoolClient,
  wanted: WantedReplay,
): Promise<{ readonly replay_id: string; readonly isJoined: boolean }> => {
  await lockUntilCommit(tx, REPLAYS);
  const { rows: open } = await tx.query<Replay>(
    `select ${columns} from replays where state in ('waiting', 'running') order by created_at`,
  );
  const covering = open.find((one) => one.ranges === null && covers(one, wanted));
  if (covering !== undefined) return { replay_id: covering.replay_id, isJoined: true };
  const replay_id = `rpl_${randomUUID()}`;
  const met = Object.fromEntries(open.map((one) => [one.replay_id, one.positions]));
  await tx.query(sql`
      insert into replays (replay_id, actor, hours, from_at, to_at, sinks, met)
      values (${replay_id}, ${wanted.actor}, ${wanted.hours}, to_timestamp(${wanted.from} / 1000.0),
        to_timestamp(${wanted.to}::float8 / 1000.0),
        ${wanted.sinks}, ${JSON.stringify(met)})`);
  return { replay_id, isJoined: false };
};

const covers = (one: Replay, wanted: WantedReplay): boolean =>
  one.from_at <= wanted.from &&
  (one.to_at === null || (wanted.to !== null && wanted.to <= one.to_at)) &&
  wanted.sinks.every((sink) => one.sinks.includes(sink));

export const readReplay = async (pool: Pool, replayId: string): Promise<Replay | undefined> =>
  (await pool.query<Replay>(`select ${columns} from replays where replay_id = $1`, [replayId])).rows[0];

/** The newest first. */
export const listReplays = async (pool: Pool, limit: number): Promise<readonly Replay[]> =>
  (await pool.query<Replay>(`select ${columns} from replays order by created_at desc limit $1`, [limit])).rows;

/** What waits or runs, the oldest first. */
export const openReplays = async (pool: Pool): Promise<readonly Replay[]> =>
  (await pool.query<Replay>(`select ${columns} from replays where state in ('waiting', 'running') order by created_at`))
    .rows;

/**
 * Replays of which something had been written when `replay` was asked for, or was since, and that
 * came through.
 */
export const earlierReplays = async (pool: Pool, replay: Replay): Promise<readonly Replay[]> =>
  (
    await pool.query<Replay>(`select ${columns} from replays where replay_id = any ($1) and state = 'done'`, [
      Object.keys(replay.met),
    ])
  ).rows;

/**
 * The replay whose turn it is: the oldest that is open. `busy` while another owner works on it,
 * undefined when none is open.
 */
export const claimReplay = (pool: Pool, owner: string): Promise<Replay | "busy" | undefined> =>
  withAdvisoryLock(pool, async (tx) => {
    const { rows: first } = await tx.query<{ replay_id: string; is_free: boolean }>(`
      select replay_id, lease_until is null or lease_until < clock_timestamp() as is_free from replays
        where state in ('waiting', 'running')
      order by state = 'running' desc, created_at limit 1`);
    const [next] = first;
    if (next === undefined) return undefined;
    if (!next.is_free) return "busy";
    const { rows } = await tx.query<Replay>(
      `update replays set state = 'running', owner = $2, lease_until = ${lease}, attempts = attempts + 1,
         started_at = coalesce(started_at, clock_timestamp()), moved_at = coalesce(moved_at, clock_timestamp())
       where replay_id = $1 returning ${columns}`,
      [next.replay_id, owner],
    );
    return rows[0]!;
  });

/**
 * Another process works on this replay now, or it was cancelled: nothing more is to be
 * written.
 */
export class LaneLost extends Error {
  readonly verdict = "transient";
  constructor(replayId: string) {
    super(`${replayId} is no longer ours`);
    this.name = "LaneLost";
  }
}

/** What one lane may do to its replay. Each rejects with LaneLost once another process has it. */
export interface OwnedReplay {
  /** Once, before anything is read: a lane that goes on finds what the first one decided. */
  readonly decide: (ranges: readonly Segment[]) => Promise<void>;
  /** Position and counts in one statement. */
  readonly advance: (step: Advance) => Promise<void>;
  readonly renew: () => Promise<void>;
  /** Leaves it to the next process. */
  readonly release: () => Promise<void>;
  readonly end: (state: "done" | "failed", error?: ReplayError) => Promise<void>;
}
export interface Advance {
  readonly place: string;
  readonly next: number;
  readonly requeued: number;
  readonly skipped: number;
  readonly suppressed: number;
  readonly refused: number;
  readonly errors: readonly ReplayError[];
}

export const ownedReplay = (pool: Pool, replayId: string, owner: string): OwnedReplay => {
  const change = async (assignments: string, ...values: readonly unknown[]): Promise<void> => {
    const { rowCount } = await pool.query(
      `update replays set ${assignments} where replay_id = $1 and owner = $2 and state = 'running'`,
      [replayId, owner, ...values],
    );
    if (rowCount !== 1) throw new LaneLost(replayId);
  };
  return {
    decide: (ranges) => change(`ranges = $3, lease_until = ${lease}`, JSON.stringify(ranges)),
    advance: ({ place, next, requeued, skipped, suppressed, refused, errors }) =>
      change(
        `positions = positions || jsonb_build_object($3::text, $4::bigint), requeued = requeued + $5,
          skipped = skipped + $6,
         suppressed = suppressed + $7, refused = refused + $8, moved_at = clock_timestamp(), lease_until = ${lease},
         errors = case when jsonb_array_length(errors) < ${ERRORS_KEPT} then errors || $9::jsonb else errors end`,
        ...[place, next, requeued, skipped, suppressed, refused, JSON.stringify(errors)],
      ),
    renew: () => change(`lease_until = ${lease}`),
    release: () => change("lease_until = null"),
    end: (state, error) =>
      change(
        "state = $3, ended_at = clock_timestamp(), lease_until = null, errors = errors || $4::jsonb",
        ...[state, JSON.stringify(error === undefined ? [] : [error])],
      ),
  };
};

/** What was written stays; the rest is not. False when it has ended already. */
export const cancelReplay = async (pool: Pool, replayId: string): Promise<boolean> => {
  const { rowCount } = await pool.query(
    "update replays set state = 'cancelled', ended_at = clock_timestamp() where replay_id = $1 and " +
      "state in ('waiting', 'running')",
    [replayId],
  );
  return rowCount === 1;
};
