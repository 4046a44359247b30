// Stores plans of a client's commissions in a month by partner and segment: the steps of each
// month, and the lines of each version.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Changes, countsOf } from "./changes.ts";
import type { Plan, PlanKey, PlanLine } from "./plan.ts";

export interface Step {
  readonly version: number;
  readonly status: Plan["status"];
  readonly at: UnixMs;
  readonly by: string;
  readonly reason: string | null;
  readonly changes: { readonly added: number; readonly changed: number; readonly removed: number };
}

const NONE: Plan = { version: 0, status: "draft", currency: undefined, lines: [], step: 0 };
/** The number of steps that a history shows. */
const MOST_STEPS = 50;

/** The lines of one version in their order. */
const linesOf = async (
  tx: PoolClient,
  { client_id, year, month }: PlanKey,
  version: number,
): Promise<readonly PlanLine[]> => {
  const { rows } = await tx.query<PlanLine>(sql`
    select partner_id, segment, budget_minor, target_conversions, trim_scale(rate)::text as rate from planner_lines
    where client_id = ${client_id} and year = ${year} and month = ${month} and version = ${version} order by line`);
  return rows;
};

/** Returns the current plan. The caller must have checked that it may see the client. */
export const readPlan = async (tx: PoolClient, key: PlanKey): Promise<Plan> => {
  const { client_id, year, month } = key;
  const { rows } = await tx.query<Omit<Plan, "lines">>(sql`
    select version, status, currency, step from planner_months
    where client_id = ${client_id} and year = ${year} and month = ${month} order by step desc limit 1`);
  const [newest] = rows;
  return newest === undefined ? NONE : { ...newest, lines: await linesOf(tx, key, newest.version) };
};

/** The lines of the last approved version; empty if none was ever approved. */
export const approvedLines = async (tx: PoolClient, key: PlanKey): Promise<readonly PlanLine[]> => {
  const { client_id, year, month } = key;
  const { rows } = await tx.query<{ version: number }>(sql`
    select version from planner_months where client_id = ${client_id} and year = ${year} and month = ${month}
      and status = 'approved' order by step desc limit 1`);
  return rows[0] === undefined ? [] : linesOf(tx, key, rows[0].version);
};

/** The newest steps, latest first. */
export const historyOf = async (tx: PoolClient, { client_id, year, month }: PlanKey): Promise<readonly Step[]> => {
  const { rows } = await tx.query<Step>(sql`
    select version, status, at, actor as by, reason,
      jsonb_build_object('added', added, 'changed', changed, 'removed', removed) as changes
    from planner_months where client_id = ${client_id} and year = ${year} and month = ${month}
    order by step desc limit ${MOST_STEPS}`);
  return rows;
};

interface NewStep {
  readonly version: number;
  readonly status: Plan["status"];
  readonly currency: string;
  readonly actor: string;
  readonly reason?: string | null;
  readonly changes: Changes;
}

/**
 * Adds the step after the plan `before`. The caller has locked the client, so no other step gets
 * the same number.
 */
export const addStep = async (tx: PoolClient, key: PlanKey, before: Plan, step: NewStep): Promise<void> => {
  const { client_id, year, month } = key;
  const { version, status, currency, actor, reason = null } = step;
  const { added, changed, removed } = countsOf(step.changes);
  await tx.query(sql`
    insert into planner_months (client_id, year, month, step, version, status, currency, actor, reason, added, changed,
      removed)
    values (${client_id}, ${year}, ${month}, ${before.step + 1}, ${version}, ${status}, ${currency}, ${actor},
      ${reason}, ${added}, ${changed}, ${removed})`);
};

const exact = (_key: string, part: unknown): unknown => (typeof part === "bigint" ? part.toString() : part);

export const addLines = async (
  tx: PoolClient,
  { client_id, year, month }: PlanKey,
  version: number,
  lines: readonly PlanLine[],
): Promise<void> => {
  await tx.query(sql`
    insert into planner_lines (client_id, year, month, version, line, partner_id, segment, budget_minor,
      target_conversions, rate)
    select ${client_id}, ${year}, ${month}, ${version}, line, partner_id, segment, budget_minor, target_conversions,
      rate
    from rows from (jsonb_to_recordset(${JSON.stringify(lines, exact)}::jsonb)
      as (partner_id int, segment text, budget_minor bigint, target_conversions int, rate numeric)) with ordinality
      as given (partner_id, segment, budget_minor, target_conversions, rate, line)`);
};

export interface PartnerPlanLine extends PlanLine {
  readonly client_id: number;
  readonly status: Plan["status"];
  readonly currency: string;
}

/** The partner's lines in the newest versions of a month, at these clients. */
export const linesOfPartner = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
  { year, month }: Omit<PlanKey, "client_id">,
): Promise<readonly PartnerPlanLine[]> => {
  const { rows } = await tx.query<PartnerPlanLine>(sql`
    with newest as (
      select distinct on (client_id) client_id, version, status, currency from planner_months
      where client_id = any (${clients}::int[]) and year = ${year} and month = ${month}
      order by client_id, step desc)
    select l.client_id, n.status, n.currency, l.partner_id, l.segment, l.budget_minor, l.target_conversions,
      trim_scale(l.rate)::text as rate
    from newest n join planner_lines l on l.client_id = n.client_id and l.version = n.version
    where l.year = ${year} and l.month = ${month} and l.partner_id = ${partnerId}
    order by l.client_id, l.line`);
  return rows;
};
