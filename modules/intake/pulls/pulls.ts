// Windows of external sources that are to be pulled: asked for by the schedule or by a request, and
// claimed by one lane at a time.
import type { Pool } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** A claimed window with what its source says now. */
export interface Pull {
  readonly pull_id: string;
  readonly client_id: number;
  readonly source_id: number;
  readonly actor: string;
  readonly from_at: UnixMs;
  readonly to_at: UnixMs;
  readonly look_back_days: number;
  /** Pulled up to here; `cursor` is the source's own place in the step behind it. */
  readonly done_to: UnixMs;
  readonly cursor: string | null;
  readonly pages: number;
  /** Requests that failed since the last page. */
  readonly failures: number;
  readonly is_active: boolean;
  readonly mapping: Readonly<Record<string, string>>;
  readonly constants: Readonly<Record<string, string | number>>;
  readonly event_names: Readonly<Record<string, string>>;
  readonly pull: unknown;
  readonly pull_secret: string | null;
}
/** What a window has brought, as `last_pull_stats` has it too. */
export interface PullCounts {
  readonly rows: number;
  readonly new: number;
  readonly duplicate: number;
  readonly errors: number;
}
/** Why a row or an answer was not taken; never with a value of a row. */
export interface PullFault {
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
}
/** Of one page. */
export interface PulledRows {
  readonly rows: number;
  /** By their identity, those that were published. */
  readonly hashes: readonly string[];
  readonly withheld: number;
  readonly faults: readonly PullFault[];
  /** Where to go on: a cursor within the step, or the end of the step. */
  readonly next: { readonly cursor: string | null; readonly doneTo: UnixMs };
}

const SCHEDULE = "schedule";
/** Of a transaction of the keeper. */
export const asKeeper = { role: "tributary_keeper" } as const;
/** A lane that has not moved for so long may be taken over; it renews every third of this. */
export const leaseMs = 10_000;
export const LEASE = sql`clock_timestamp() + ${leaseMs} * interval '1 millisecond'`;

/** Of sources `s`: those to be pulled. What a client that is archived had set is not undone. */
export const PULLED = sql`s.state = 'active' and s.pull is not null and 'archived' is distinct from (
  select status from clients c where c.client_id = s.client_id order by version desc limit 1)`;

/**
 * A window for each source whose last one was asked for `everyMs` ago, from where that one ended
 * less the days that the source looks back; the first one from these days ago. Answers how many.
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

/** What became of a request for a window, over all sources. */
export interface Requested {
  readonly sources: number;
  readonly started: number;
  /** Open windows hold all of it already. */
  readonly covered: number;
  /** Open windows hold a part of it, and come first. */
  readonly overlapping: number;
}

/** Asks every active source for a window; requests take turns, so that two find each other. */
export const requestPulls = (
  pool: Pool,
  { from, to, actor }: { readonly from: UnixMs; readonly to: UnixMs; readonly actor: string },
): Promise<Requested> =>
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
 * The window whose turn it is: of those that wait, the one that has moved the longest ago. A source
 * has one lane at a time. `owner` names this claim alone, so that a lane that was taken over counts
 * nothing any more. Undefined when there is none.
 */
export const claimPull = (pool: Pool, owner: string): Promise<Pull | undefined> =>
  transaction(
    pool,
    null,
    async (tx) => {
      // Of two that look at once the second one must see what the first has taken.
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

/** Which of these identities were taken before. */
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
