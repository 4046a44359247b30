// Stores replays, which are windows of the log to be written to the stores again: requests them,
// claims them for one lane at a time, advances and ends them.

import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * One partition's part of a window: [start, end). An earlier lane wrote [skip_from, skip_to) after
 * this replay had been requested.
 */
export interface Segment {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
  readonly skip_from: number;
  readonly skip_to: number;
}
/** The offset to continue from, by `placeOf`. */
type Positions = Readonly<Record<string, number>>;
export const placeOf = ({ topic, partition }: { readonly topic: string; readonly partition: number }): string =>
  `${topic}-${partition}`;

export type ReplayState = "waiting" | "running" | "done" | "failed" | "cancelled";
export interface Replay {
  readonly replay_id: string;
  readonly state: ReplayState;
  readonly actor: string;
  readonly hours: number | null;
  readonly from_at: UnixMs;
  /** Null: up to the end of the log when the lane begins. */
  readonly to_at: UnixMs | null;
  readonly sinks: readonly string[];
  readonly met: Readonly<Record<string, Positions>>;
  /** Null until the lane begins. */
  readonly ranges: readonly Segment[] | null;
  readonly positions: Positions;
  readonly requeued: number;
  readonly skipped: number;
  readonly suppressed: number;
  /** Events that could not be decoded or that no store accepted; `errors` lists the new ones. */
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
 * Another process may take over a lane that has not moved for this long. The lane renews its lease
 * every third of it.
 */
export const leaseMs = 10_000;
/** Errors kept of a replay: the first of each kind are enough to diagnose it. */
const ERRORS_KEPT = 100;

const columns = `replay_id, state, actor, hours, from_at, to_at, sinks, met, ranges, positions, requeued::float8,
  skipped::float8, suppressed::float8,
  refused::float8, errors, attempts, created_at, started_at, moved_at, ended_at`;
const lease = `clock_timestamp() + interval '${leaseMs} milliseconds'`;

const REPLAYS = "tributary.replays";
/** Serialises requests and claims, so that two concurrent calls see each other. */
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
 * Requests a window. Joins an open replay that covers the window and has not begun: its result is
 * the result.
 * A replay that has begun is not joined, because it does not restore what was lost behind its
 * position or appended after it had fixed its end. The new replay then waits its turn. It stores
 * the positions of the running lanes, since what they write from there on need not be written
 * again.
 */
export const requestReplay = (
  pool: Pool,
  wanted: WantedReplay,
): Promise<{ readonly replay_id: string; readonly isJoined: boolean }> =>
  transaction(pool, null, (tx) => requestReplayWithin(tx, wanted));

/**
 * Does the same inside the caller's transaction, which must be short because it blocks other
 * requests.
 */
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

/** The form of a replay's id; a text of another form need not reach a store. */
export const isReplayId = (text: string): boolean => /^rpl_[0-9a-f-]{36}$/.test(text);

export const readReplay = async (pool: Pool, replayId: string): Promise<Replay | undefined> =>
  (await pool.query<Replay>(`select ${columns} from replays where replay_id = $1`, [replayId])).rows[0];

/** The newest first. */
export const listReplays = async (pool: Pool, limit: number): Promise<readonly Replay[]> =>
  (await pool.query<Replay>(`select ${columns} from replays order by created_at desc limit $1`, [limit])).rows;

/** Waiting and running replays, the oldest first. */
export const openReplays = async (pool: Pool): Promise<readonly Replay[]> =>
  (await pool.query<Replay>(`select ${columns} from replays where state in ('waiting', 'running') order by created_at`))
    .rows;

/**
 * Returns completed replays that wrote something after `replay` was requested, including those that
 * were running then.
 */
export const earlierReplays = async (pool: Pool, replay: Replay): Promise<readonly Replay[]> =>
  (
    await pool.query<Replay>(`select ${columns} from replays where replay_id = any ($1) and state = 'done'`, [
      Object.keys(replay.met),
    ])
  ).rows;

/**
 * Claims the oldest open replay. Returns `busy` while another owner works on it, undefined when
 * none is open.
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

/** Another process has this replay now, or it was cancelled: the lane must write nothing more. */
export class LaneLost extends Error {
  readonly verdict = "transient";
  constructor(replayId: string) {
    super(`${replayId} is no longer ours`);
    this.name = "LaneLost";
  }
}

/**
 * The operations of a lane on its replay. Each rejects with LaneLost once another process has it.
 */
export interface OwnedReplay {
  /**
   * Called once, before anything is read. A lane that resumes finds the ranges of the first one.
   */
  readonly decide: (ranges: readonly Segment[]) => Promise<void>;
  /** Stores position and counts in one statement. */
  readonly advance: (step: Advance) => Promise<void>;
  readonly renew: () => Promise<void>;
  /** Ends the lease early, so that the next process can claim the replay. */
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

/** Cancels a replay; rows that it has written stay. Returns false when it has ended already. */
export const cancelReplay = async (pool: Pool, replayId: string): Promise<boolean> => {
  const { rowCount } = await pool.query(
    "update replays set state = 'cancelled', ended_at = clock_timestamp() where replay_id = $1 and " +
      "state in ('waiting', 'running')",
    [replayId],
  );
  return rowCount === 1;
};
