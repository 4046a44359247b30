// Work that outlives its request: a transaction of the API requests it, and one process at a time
// does it. A process loses the job when its lease expires.
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";

export const jobKinds = ["backfill", "import_undo", "webhook_resend"] as const;
export type JobKind = (typeof jobKinds)[number];
export const jobStates = ["queued", "running", "completed", "failed"] as const;

export interface NewJob {
  readonly kind: JobKind;
  readonly client_id: number;
  /** Requests for the same work share a key, and are one job. */
  readonly key: string;
  readonly input: object;
  readonly created_by: string;
}
/** A job that this process may work on. `fence` proves that no other process has taken it since. */
export interface TakenJob {
  readonly job_id: string;
  readonly kind: JobKind;
  readonly client_id: number;
  readonly input: any;
  readonly created_by: string;
  readonly done: number;
  /** The progress of the process before, in the format of the work; null: none yet. */
  readonly checkpoint: any;
  readonly fence: bigint;
}
export interface Progress {
  readonly done: number;
  readonly total: number | null;
  /** Stored for a following process; undefined: keeps the stored one. */
  readonly checkpoint?: object | undefined;
}

/** Longer than any step between two reports of progress. */
const LEASE = "interval '60 seconds'";
/** Limits the attempts, because a job that kills its process would kill the next one too. */
const MOST_ATTEMPTS = 5;
const keeper = { role: "tributary_keeper" } as const;

/**
 * Runs inside a transaction with the client as its tenant. Returns the id, also of an existing job.
 * A failed job is requested again as a new job.
 */
export const askForJob = async (tx: PoolClient, asked: NewJob): Promise<string> => {
  const { rows: failed } = await tx.query<{ times: number }>(sql`
    select count(*)::int as times from jobs where client_id = ${asked.client_id} and kind = ${asked.kind}
      and input = ${JSON.stringify(asked.input)}::jsonb and status = 'failed'`);
  const times = failed[0]!.times;
  const job = times === 0 ? asked : { ...asked, key: `${asked.key} ${times + 1}` };
  const { rows } = await tx.query<{ job_id: string }>(sql`
    insert into jobs (job_id, kind, client_id, key, input, created_by)
    values (${`job_${randomUUID()}`}, ${job.kind}, ${job.client_id}, ${job.key}, ${JSON.stringify(job.input)}::jsonb,
      ${job.created_by})
    on conflict (client_id, kind, key) do nothing returning job_id`);
  if (rows[0] !== undefined) return rows[0].job_id;
  const { rows: known } = await tx.query<{ job_id: string }>(sql`
    select job_id from jobs where client_id = ${job.client_id} and kind = ${job.kind} and key = ${job.key}`);
  return known[0]!.job_id;
};

/**
 * Takes the oldest job that is waiting, or whose process has not reported for 60 s; such a job
 * continues from `done`. Across all processes, one job of each kind runs at a time. A job that was
 * lost five times fails. Returns undefined if there is none.
 */
export const takeJob = (pool: Pool, kinds: readonly JobKind[], owner: string): Promise<TakenJob | undefined> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await lockUntilCommit(tx, "tributary.jobs");
      await tx.query(sql`
        update jobs set status = 'failed', lease_until = null, finished_at = clock_timestamp(),
          error = 'the process that worked on it ended without a word, five times'
        where status = 'running' and lease_until < clock_timestamp() and attempts >= ${MOST_ATTEMPTS}`);
      const { rows } = await tx.query<TakenJob>(sql`
        update jobs set status = 'running', fence = fence + 1, attempts = attempts + 1, leased_by = ${owner},
          lease_until = clock_timestamp() + ${{ text: LEASE, values: [] }}
        where job_id = (
          select job_id from jobs waits where kind = any (${kinds})
            and (status = 'queued' or (status = 'running' and lease_until < clock_timestamp()))
            and not exists (
              select from jobs other where other.kind = waits.kind and other.status = 'running'
                and other.lease_until >= clock_timestamp())
          order by created_at limit 1)
        returning job_id, kind, client_id, input, created_by, done, checkpoint, fence`);
      return rows[0];
    },
    keeper,
  );

/**
 * Changes a job in a separate transaction, and runs `follow` in it as the application, with the
 * client as its tenant. Returns false and does nothing if another process has the job.
 */
const changeTaken = (
  pool: Pool,
  { job_id, client_id, fence }: TakenJob,
  set: Sql,
  follow?: (tx: PoolClient) => Promise<void>,
): Promise<boolean> =>
  transaction(
    pool,
    [client_id],
    async (tx) => {
      const { rowCount } = await tx.query(
        sql`update jobs set ${set} where job_id = ${job_id} and fence = ${fence} and status = 'running'`,
      );
      if (rowCount !== 1) return false;
      await tx.query("set local role none");
      await follow?.(tx);
      return true;
    },
    keeper,
  );

/** Gives a job back that cannot be done now; the next process that looks takes it. */
export const giveBack = (pool: Pool, job: TakenJob): Promise<boolean> =>
  changeTaken(
    pool,
    job,
    sql`status = 'queued', lease_until = null, leased_by = null, attempts = greatest(attempts - 1, 0)`,
  );

/** Extends the lease. Returns false if another process has taken the job over. */
export const reportProgress = (pool: Pool, job: TakenJob, { done, total, checkpoint }: Progress): Promise<boolean> =>
  changeTaken(
    pool,
    job,
    sql`done = ${done}, total = ${total},
      checkpoint = coalesce(${checkpoint === undefined ? null : JSON.stringify(checkpoint)}::jsonb, checkpoint),
      lease_until = clock_timestamp() + ${{ text: LEASE, values: [] }}`,
  );

/** Ends a job successfully and runs `follow`, both in one transaction. */
export const completeJob = (
  pool: Pool,
  job: TakenJob,
  result: object,
  follow?: (tx: PoolClient) => Promise<void>,
): Promise<boolean> =>
  changeTaken(
    pool,
    job,
    sql`status = 'completed', result = ${JSON.stringify(result)}::jsonb, checkpoint = null, lease_until = null,
      finished_at = clock_timestamp()`,
    follow,
  );

/**
 * Ends a job that cannot be done. Returns false if another process has taken it over, whose result
 * then counts.
 */
export const failJob = (pool: Pool, job: TakenJob, error: string): Promise<boolean> =>
  changeTaken(pool, job, sql`status = 'failed', error = ${error}, lease_until = null, finished_at = clock_timestamp()`);

/** Deletes jobs that ended more than 90 days ago, and returns their number. */
export const forgetJobs = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query("delete from jobs where finished_at < clock_timestamp() - interval '90 days'")).rowCount ?? 0,
    keeper,
  );

export interface JobFilter {
  readonly job_id?: string | undefined;
  readonly kind?: JobKind | undefined;
  readonly status?: (typeof jobStates)[number] | undefined;
  readonly client_id?: number | undefined;
}

export const jobRows = ({ job_id, kind, status, client_id }: JobFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    job_id === undefined ? undefined : sql`job_id = ${job_id}`,
    kind === undefined ? undefined : sql`kind = ${kind}`,
    status === undefined ? undefined : sql`status = ${status}`,
    client_id === undefined ? undefined : sql`client_id = ${client_id}`,
  ];
  return {
    columns: {
      id: sql`job_id`,
      kind: sql`kind`,
      client_id: sql`client_id`,
      status: sql`status`,
      progress: sql`jsonb_build_object('done', done, 'total', total)`,
      result: sql`result`,
      error: sql`error`,
      created_by: sql`created_by`,
      created_at: sql`created_at`,
      finished_at: sql`finished_at`,
    },
    from: sql`jobs`,
    tenant: sql`client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { created_at: { by: sql`created_at`, type: "timestamptz" } },
    id: { by: sql`job_id`, type: "text" },
  };
};
