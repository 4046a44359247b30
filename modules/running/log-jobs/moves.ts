// Stores jobs on the log that were requested over the platform API: requests them once a plan,
// claims them for one keeper at a time, ends them.
import type { Pool, PoolClient } from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { conflict, type RefusalError } from "../../base/refusal.ts";
import type { Move, MovedPartition, MovePlan } from "./move.ts";
import type { MovePlanToken } from "./plan-token.ts";

const role = "tributary_keeper";
export const moveKinds = ["rewind", "relearn", "replay", "reprocess"] as const;
export const moveStates = ["queued", "running", "completed", "failed", "refused"] as const;
type MoveState = (typeof moveStates)[number];

/** Stored with the job: the contents of its plan. */
export interface KeptPlan {
  readonly nodes: readonly string[];
  readonly records: number;
  readonly partitions: readonly MovedPartition[];
}

/** Runs `work` under the role that may read and write jobs, then restores the caller's role. */
const asKeeper = async <T>(tx: PoolClient, work: () => Promise<T>): Promise<T> => {
  await tx.query(`set local role ${role}`);
  const result = await work();
  await tx.query("set local role none");
  return result;
};

interface Newest {
  readonly operation_id: string;
  /** True when the job has its subject exclusively until it ends; replays take turns instead. */
  readonly is_open: boolean;
}
const newestOf = async (tx: Pick<PoolClient, "query">, subject: string): Promise<Newest | undefined> =>
  (
    await tx.query<Newest>(sql`
      select operation_id, replay_id is null and status in ('queued', 'running') as is_open
      from moves where subject = ${subject} order by created_at desc, operation_id desc limit 1`)
  ).rows[0];

/** Returns the newest job of a subject. A plan made before that job is outdated. */
export const newestMoveOf = (pool: Pool, subject: string): Promise<Newest | undefined> =>
  transaction(pool, null, (tx) => newestOf(tx, subject), { role, isReadOnly: true });

/** Describes an open job in words. */
export const openText = ({ operation_id }: Newest): string =>
  `${operation_id} of the same is not over: wait for its end`;

/**
 * The plan can no longer be carried out: it was used for this job, or the job was requested in
 * between.
 */
const planRefused = (code: "plan_used" | "plan_outdated", operation_id: string, message: string): RefusalError =>
  conflict(code, message, { details: { operation_id } });

/**
 * Stores the job inside the caller's transaction; concurrent requests wait for its commit. Throws
 * RefusalError: conflict `plan_used`, or `plan_outdated` when another job of its subject has come
 * since. Then calls `checked`, which throws when anything else differs from the plan, and requests
 * the replay of a replay job.
 */
export const askForMove = async (
  tx: PoolClient,
  { operation_id, actor }: { readonly operation_id: string; readonly actor: string },
  { plan_id, move, before }: MovePlanToken,
  checked: () => { readonly plan: MovePlan; readonly replay: () => Promise<string> },
): Promise<void> => {
  await lockUntilCommit(tx, "tributary.moves");
  await asKeeper(tx, () => refuseUsed(tx, plan_id));
  const { plan, replay } = checked();
  await asKeeper(tx, () => refuseOvertaken(tx, before, plan.subject));
  const replay_id = move.move === "replay" ? await replay() : null;
  const { nodes, records, partitions, subject } = plan;
  const kept: KeptPlan = { nodes, records, partitions };
  await asKeeper(tx, () =>
    tx.query(sql`
      insert into moves (operation_id, move, subject, request, plan, plan_id, actor, total, replay_id)
      values (${operation_id}, ${move.move}, ${subject}, ${JSON.stringify(move)}::jsonb, ${JSON.stringify(kept)}::jsonb,
        ${plan_id}, ${actor}, ${records}, ${replay_id})`),
  );
};

const refuseUsed = async (tx: PoolClient, planId: string): Promise<void> => {
  const { rows } = await tx.query<{ operation_id: string }>(sql`
    select operation_id from moves where plan_id = ${planId}`);
  if (rows[0] !== undefined)
    throw planRefused("plan_used", rows[0].operation_id, `this plan was taken: see ${rows[0].operation_id}`);
};

const refuseOvertaken = async (tx: PoolClient, before: string | null, subject: string): Promise<void> => {
  const newest = await newestOf(tx, subject);
  if (newest?.is_open) throw planRefused("plan_outdated", newest.operation_id, openText(newest));
  if (newest !== undefined && newest.operation_id !== before)
    throw planRefused(
      "plan_outdated",
      newest.operation_id,
      `${newest.operation_id} of the same was asked for since: plan again`,
    );
};

/**
 * A job that this process may work on; `fence` proves that no other process has claimed it since.
 */
export interface TakenMove {
  readonly operation_id: string;
  readonly request: Move;
  readonly actor: string;
  readonly is_held: boolean;
  /** The decisions that reprocessing has begun to write; null if there are none. */
  readonly begun: readonly string[] | null;
  readonly fence: bigint;
}

/** Another keeper takes over after a keeper has been silent for this long. */
const LEASE = { text: "interval '15 seconds'", values: [] };
export const RENEWED_EVERY_MS = 3_000;

/**
 * Claims the job that waits longest, or whose keeper has been silent for 15 s; undefined when there
 * is none. A job whose hold outlived its end goes first: its keeper died between the two.
 */
export const takeMove = async (pool: Pool, owner: string): Promise<TakenMove | undefined> => {
  const ended = await transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<{ operation_id: string }>(sql`
          update moves set is_held = false where is_held and status = 'completed' and lease_until < clock_timestamp()
          returning operation_id`)
      ).rows.map(({ operation_id }) => operation_id),
    { role },
  );
  if (ended.length > 0)
    await pool.query(sql`delete from group_holds where operation_id = any (${ended}) and released_at is not null`);
  return transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<TakenMove>(sql`
          update moves set status = 'running', fence = fence + 1, leased_by = ${owner},
            lease_until = clock_timestamp() + ${LEASE}, started_at = coalesce(started_at, clock_timestamp())
          where operation_id = (
            select operation_id from moves
            where replay_id is null
              and (status = 'queued' or (status = 'running' and lease_until < clock_timestamp()))
            order by coalesce(lease_until, created_at) limit 1 for update skip locked)
          returning operation_id, request, actor, is_held, begun, fence`)
      ).rows[0],
    { role },
  );
};

interface Change {
  readonly status?: MoveState;
  readonly verdict?: string;
  readonly is_held?: boolean;
  readonly begun?: readonly string[];
  readonly difference?: object;
  readonly done?: number;
  readonly total?: number;
  readonly step?: string;
}

/**
 * Stores the progress and renews the lease. Returns false when another keeper has the job, or it
 * has ended.
 */
export const reportMove = (
  pool: Pool,
  { operation_id, fence }: Pick<TakenMove, "operation_id" | "fence">,
  change: Change,
): Promise<boolean> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { status = null, verdict = null, is_held = null, done = null, total = null, step = null } = change;
      const { begun = null, difference } = change;
      const { rowCount } = await tx.query(sql`
        update moves set status = coalesce(${status}, status), verdict = coalesce(${verdict}, verdict),
          is_held = coalesce(${is_held}, is_held), begun = coalesce(${begun}::uuid[], begun),
          difference = coalesce(${difference === undefined ? null : JSON.stringify(difference)}::jsonb, difference),
          done = coalesce(${done}, done), total = coalesce(${total}, total),
          step = coalesce(${step}, step), lease_until = clock_timestamp() + ${LEASE},
          finished_at = case when ${status}::text is null then finished_at else clock_timestamp() end
        where operation_id = ${operation_id} and fence = ${fence} and status = 'running'`);
      return rowCount === 1;
    },
    { role },
  );

/** Another keeper has taken the job over and will finish it. */
class MoveLost extends Error {
  readonly verdict = "transient";
}
export const expectOurs = async (report: Promise<boolean>): Promise<void> => {
  if (!(await report)) throw new MoveLost("another keeper has this move by now");
};

/** Releases the job, so that any keeper, this one included, may claim it after some seconds. */
export const leaveMove = async (
  pool: Pool,
  { operation_id, fence }: Pick<TakenMove, "operation_id" | "fence">,
  why: string,
  seconds: number,
): Promise<void> => {
  await transaction(
    pool,
    null,
    (tx) =>
      tx.query(sql`
        update moves set step = ${why.slice(0, 500)},
          lease_until = clock_timestamp() + make_interval(secs => ${seconds})
        where operation_id = ${operation_id} and fence = ${fence} and status = 'running'`),
    { role },
  );
};

export interface MoveFilter {
  readonly operation_id?: string | undefined;
  readonly move?: (typeof moveKinds)[number] | undefined;
  readonly status?: MoveState | undefined;
}

/**
 * Lists jobs. The progress of a replay is that of its lane. Jobs belong to no tenant: they are the
 * operator's own.
 */
export const moveRows = ({ operation_id, move, status }: MoveFilter): RowsQuery => {
  const state = sql`case r.state when 'waiting' then 'queued' when 'running' then 'running' when 'done' then 'completed'
    when 'failed' then 'failed' when 'cancelled' then 'failed' else m.status end`;
  return {
    columns: {
      id: sql`m.operation_id`,
      move: sql`m.move`,
      nodes: sql`m.plan -> 'nodes'`,
      request: sql`m.request`,
      reason: sql`m.request ->> 'reason'`,
      status: state,
      progress: sql`jsonb_build_object('total', m.total, 'done', case when ${state} = 'completed' then m.total
        when r.replay_id is null then least(m.done, m.total)
        else least(m.total, r.requeued + r.skipped + r.suppressed + r.refused) end)`,
      step: sql`m.step`,
      verdict: sql`case r.state when 'done' then r.requeued || ' records written again'
        when 'cancelled' then 'cancelled'
        when 'failed' then coalesce(r.errors -> -1 ->> 'message', 'failed') else m.verdict end`,
      replay_id: sql`m.replay_id`,
      actor: sql`m.actor`,
      created_at: sql`m.created_at`,
      started_at: sql`coalesce(r.started_at, m.started_at)`,
      finished_at: sql`coalesce(r.ended_at, m.finished_at)`,
      difference: sql`m.difference`,
      plan: sql`m.plan`,
      subject: sql`m.subject`,
    },
    from: sql`moves m left join replays r on r.replay_id = m.replay_id`,
    role,
    tenant: sql`0`,
    where: [
      operation_id === undefined ? sql`true` : sql`m.operation_id = ${operation_id}`,
      move === undefined ? sql`true` : sql`m.move = ${move}`,
      status === undefined ? sql`true` : sql`${state} = ${status}`,
    ],
    sorts: { created_at: { by: sql`m.created_at`, type: "timestamptz" } },
    id: { by: sql`m.operation_id`, type: "text" },
  };
};
