// The operations of a lane on the window that it has claimed: count a page, wait, end.
import type { Pool, PoolClient } from "pg";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import { asKeeper, LEASE, type Pull, type PulledRows, type PullFault, PullLost } from "./pulls.ts";

/** Each rejects with PullLost once another process has the window. */
export interface OwnedPull {
  /**
   * Stores rows, counts and position in one transaction: a page is either counted once or pulled
   * again.
   */
  readonly advance: (page: PulledRows) => Promise<void>;
  readonly renew: () => Promise<void>;
  /** Releases the window until the next turn, `waitMs` from now. */
  readonly release: (waitMs: number) => Promise<void>;
  /**
   * Records that the source did not return a page. With `isStale` the step starts again without its
   * cursor.
   */
  readonly failed: (fault: PullFault, waitMs: number, isStale: boolean) => Promise<void>;
  readonly end: (state: "done" | "failed", fault?: PullFault) => Promise<void>;
}

const FAULTS_KEPT = 20;
const unless = (fault: PullFault | undefined): readonly PullFault[] => (fault === undefined ? [] : [fault]);

const noting = (faults: readonly PullFault[]): Sql => sql`
  faults = case when jsonb_array_length(faults) < ${FAULTS_KEPT}
    then faults || ${JSON.stringify(faults.slice(0, FAULTS_KEPT))}::jsonb else faults end`;

const freed = (waitMs: number): Sql => sql`
  lease_until = null, next_try_at = clock_timestamp() + ${waitMs} * interval '1 millisecond',
  moved_at = clock_timestamp()`;

export const ownedPull = (pool: Pool, pull: Pull, owner: string): OwnedPull => {
  const { pull_id, client_id, source_id } = pull;
  const owned = <T>(work: (tx: PoolClient) => Promise<T>): Promise<T> => transaction(pool, null, work, asKeeper);
  const change = async (tx: PoolClient, assignments: Sql): Promise<void> => {
    const { rowCount } = await tx.query(sql`
      update pulls set ${assignments}
      where pull_id = ${pull_id} and owner = ${owner} and state = 'running'`);
    if (rowCount !== 1) throw new PullLost(pull_id);
  };
  return {
    advance: ({ rows, hashes, withheld, faults, next }) =>
      owned(async (tx) => {
        const { rowCount } = await tx.query(sql`
          insert into pulled_rows (client_id, source_id, sale_hash)
          select ${client_id}, ${source_id}, decode(hash, 'hex') from unnest(${hashes}::text[]) as hash
          order by hash on conflict do nothing`);
        const added = rowCount ?? 0;
        const repeated = rows - added - withheld - faults.length;
        await change(
          tx,
          sql`pages = pages + 1, rows = rows + ${rows}, new = new + ${added}, duplicate = duplicate + ${repeated},
            withheld = withheld + ${withheld}, errors = errors + ${faults.length}, ${noting(faults)}, failures = 0,
            cursor = ${next.cursor}, done_to = ${new Date(next.doneTo)}, moved_at = clock_timestamp(),
            lease_until = ${LEASE}`,
        );
      }),
    renew: () => owned((tx) => change(tx, sql`lease_until = ${LEASE}`)),
    release: (waitMs) => owned((tx) => change(tx, freed(waitMs))),
    failed: (fault, waitMs, isStale) =>
      owned(async (tx) => {
        const place = isStale ? sql`cursor = null, ` : sql``;
        await change(tx, sql`${place}failures = failures + 1, ${noting([fault])}, ${freed(waitMs)}`);
        await report(tx, pull, sql``);
      }),
    end: (state, fault) =>
      owned(async (tx) => {
        await change(
          tx,
          sql`state = ${state}, ended_at = clock_timestamp(), moved_at = clock_timestamp(), lease_until = null,
            ${noting(unless(fault))}, failures = ${fault === undefined ? 0 : pull.failures + 1}`,
        );
        const to = JSON.stringify({ to: new Date(pull.to_at).toISOString() });
        const cursor = pull.actor === "schedule" ? sql`, pull_cursor = ${to}::jsonb` : sql``;
        await report(tx, pull, state === "done" ? sql`, last_pull_at = clock_timestamp()${cursor}` : sql``);
      }),
  };
};

/** Copies the totals of the window to its source, where health and the API read them. */
const report = async (tx: PoolClient, { pull_id, source_id }: Pull, more: Sql): Promise<void> => {
  await tx.query(sql`
    update sources s set last_pull_stats = jsonb_build_object('rows', p.rows, 'new', p.new, 'duplicate', p.duplicate,
      'errors', p.errors + p.failures, 'window', jsonb_build_object('from', p.from_at, 'to', p.to_at,
        'look_back_days', p.look_back_days))${more}
    from pulls p where p.pull_id = ${pull_id} and s.source_id = ${source_id}`);
};

/** Older rows are refused because of their time, and windows are shown for 30 days. */
export const forgetPulls = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const windows = await tx.query("delete from pulls where ended_at < clock_timestamp() - interval '30 days'");
      const rows = await tx.query("delete from pulled_rows where pulled_at < clock_timestamp() - interval '25 months'");
      return (windows.rowCount ?? 0) + (rows.rowCount ?? 0);
    },
    asKeeper,
  );
