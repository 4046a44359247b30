// Stores windows of external sources to be pulled: the schedule or a request adds them, and one
// lane at a time claims one.
import type { Pool } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** A claimed window with the current settings of its source. */
export interface Pull {
  readonly pull_id: string;
  readonly client_id: number;
  readonly source_id: number;
  readonly actor: string;
  readonly from_at: UnixMs;
  readonly to_at: UnixMs;
  readonly look_back_days: number;
  /** Pulled up to here; `cursor` is the source's position in the step after it. */
  readonly done_to: UnixMs;
  readonly cursor: string | null;
  readonly pages: number;
  /** Failed requests since the last page. */
  readonly failures: number;
  readonly is_active: boolean;
  readonly mapping: Readonly<Record<string, string>>;
  readonly constants: Readonly<Record<string, string | number>>;
  readonly event_names: Readonly<Record<string, string>>;
  readonly pull: unknown;
  readonly pull_secret: string | null;
}
/** The counts of a window, with the fields of `last_pull_stats`. */
export interface PullCounts {
  readonly rows: number;
  readonly new: number;
  readonly duplicate: number;
  readonly errors: number;
}
/** Why a row or a response was refused; never contains a value of a row. */
export interface PullFault {
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
}
/** The result of one page. */
export interface PulledRows {
  readonly rows: number;
  /** The identities of the published rows. */
  readonly hashes: readonly string[];
  readonly withheld: number;
  readonly faults: readonly PullFault[];
  /** Where to continue: a cursor within the step, or the end of the step. */
  readonly next: { readonly cursor: string | null; readonly doneTo: UnixMs };
}

const SCHEDULE = "schedule";
/** Options of a transaction that runs as the keeper. */
export const asKeeper = { role: "tributary_keeper" } as const;
/**
 * Another process may take over a lane that has not moved for this long. The lane renews its lease
 * every third of it.
 */
export const leaseMs = 10_000;
export const LEASE = sql`clock_timestamp() + ${leaseMs} * interval '1 millisecond'`;

/**
 * A condition on sources `s`: those that are pulled. An archived client keeps its settings and is
 * skipped.
 */
export const PULLED = sql`s.state = 'active' and s.pull is not null and 'archived' is distinct from (
  select status from clients c where c.client_id = s.client_id order by version desc limit 1)`;

/**
 * Adds a window for each source whose last one was requested `everyMs` ago. It begins where that
 * one ended, less the look-back of the source; the first window begins that many days ago. Returns
 * how many it added.
 */
export const schedulePulls = (pool: Pool, everyMs: number): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rowCount } = await tx.query(sql`
        insert into pulls (pull_id, client_id, source_id, actor, from_at, to_at, look_back_days, done_to)
        select 'pul_' || gen_random_uuid(), client_id, source_id, ${SCHEDULE}, from_at, to_at, days, from_at
        from (select s.client_id, s.source_id, date_trunc('milliseconds', clock_timestamp()) as to_at, days,
            least(coalesce((s.pull_cursor->>'to')::timestamptz, clock_timestamp()), clock_timestamp())
              - greatest(days, 1.0 / 24)::float8 * interval '1 day' as from_at
          from sources s, lateral (select coalesce((s.pull->>'look_back_days')::int, 1) as days) as settings
          where ${PULLED} and not exists (select 1 from pulls p
            where p.source_id = s.source_id and p.actor = ${SCHEDULE}
              and p.created_at > clock_timestamp() - ${everyMs} * interval '1 millisecond')) as due
        on conflict (source_id) where state in ('waiting', 'running') and actor = 'schedule' do nothing`);
      return rowCount ?? 0;
    },
    asKeeper,
  );

/** The result of a request for a window, over all sources. */
export interface RequestResult {
  readonly sources: number;
  readonly started: number;
  /** Sources whose open windows contain all of it already. */
  readonly covered: number;
  /** Sources whose open windows contain a part of it; those windows are pulled first. */
  readonly overlapping: number;
}

/**
 * Requests a window of every active source. Requests take turns, so that two concurrent ones see
 * each other.
 */
export const requestPulls = (
  pool: Pool,
  { from, to, actor }: { readonly from: UnixMs; readonly to: UnixMs; readonly actor: string },
): Promise<RequestResult> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await lockUntilCommit(tx, "tributary.pulls");
      const [since, until] = [from, to].map((at) => sql`${new Date(at)}::timestamptz`);
      const { rows } = await tx.query<{ is_covered: boolean; is_overlapping: boolean }>(sql`
        with asked as (
          select s.client_id, s.source_id,
            exists (select 1 from pulls p where p.source_id = s.source_id and p.state in ('waiting', 'running')
              and p.actor <> ${SCHEDULE} and p.from_at <= ${since} and p.to_at >= ${until}) as is_covered,
            exists (select 1 from pulls p where p.source_id = s.source_id and p.state in ('waiting', 'running')
              and p.actor <> ${SCHEDULE} and p.from_at < ${until} and p.to_at > ${since}) as is_overlapping
          from sources s where ${PULLED}),
        begun as (
          insert into pulls (pull_id, client_id, source_id, actor, from_at, to_at, done_to)
          select 'pul_' || gen_random_uuid(), client_id, source_id, ${actor}, ${since}, ${until}, ${since}
          from asked where not is_covered)
        select is_covered, is_overlapping from asked`);
      const started = rows.filter(({ is_covered }) => !is_covered);
      return {
        sources: rows.length,
        started: started.length,
        covered: rows.length - started.length,
        overlapping: started.filter(({ is_overlapping }) => is_overlapping).length,
      };
    },
    { role: "tributary_edge" },
  );

/**
 * Claims the waiting window that has not moved for longest; undefined when there is none. A source
 * has one lane at a time. `owner` must be unique to this claim, so that a lane that was taken over
 * can no longer count anything.
 */
export const claimPull = (pool: Pool, owner: string): Promise<Pull | undefined> =>
  transaction(
    pool,
    null,
    async (tx) => {
      // Of two concurrent claims, the second must see the windows that the first has taken.
      await lockUntilCommit(tx, "tributary.pulls");
      const { rows } = await tx.query<Pull>(sql`
        with turn as (
          select p.pull_id from pulls p
          where p.state in ('waiting', 'running') and p.next_try_at <= clock_timestamp()
            and not exists (select 1 from pulls o where o.source_id = p.source_id
              and o.state = 'running' and o.lease_until > clock_timestamp())
          order by coalesce(p.moved_at, p.created_at), p.pull_id limit 1)
        update pulls p set state = 'running', owner = ${owner}, lease_until = ${LEASE}
        from turn, sources s
        where p.pull_id = turn.pull_id and s.source_id = p.source_id
        returning p.pull_id, p.client_id, p.source_id, p.actor, p.from_at, p.to_at, p.look_back_days, p.done_to,
          p.cursor, p.pages, p.failures, s.state = 'active' and s.pull is not null as is_active, s.mapping, s.constants,
          s.event_names, s.pull, s.pull_secret`);
      return rows[0];
    },
    asKeeper,
  );

/** Another process works on this window now. */
export class PullLost extends Error {
  readonly verdict = "transient";
  constructor(pullId: string) {
    super(`${pullId} is no longer ours`);
    this.name = "PullLost";
  }
}

/** Returns the identities that were stored before. */
export const knownRows = async (
  pool: Pool,
  { client_id, source_id }: Pick<Pull, "client_id" | "source_id">,
  hashes: readonly string[],
): Promise<ReadonlySet<string>> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ hash: string }>(sql`
        select encode(sale_hash, 'hex') as hash from pulled_rows
        where client_id = ${client_id} and source_id = ${source_id}
          and sale_hash = any (${hashes.map((hash) => Buffer.from(hash, "hex"))}::bytea[])`);
      return new Set(rows.map(({ hash }) => hash));
    },
    { ...asKeeper, isReadOnly: true },
  );
