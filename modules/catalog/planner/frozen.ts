// Approved plans protect the contracts of their lines for their month.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { MonthOfYear } from "../budgets/pace.ts";

export interface FrozenBy {
  readonly client_id: number;
  readonly partner_id: number;
  readonly segment: string | null;
  readonly event_type: string;
  readonly effective_from: string;
}

/**
 * The first month with an approved plan that has a line paid by this contract, within the days from
 * `from` to before `to` (null: without an end). Months in which a later contract of the same key
 * applies do not count. Undefined if there is none.
 */
export const frozenMonth = async (
  tx: PoolClient,
  { client_id, partner_id, segment, event_type, effective_from }: FrozenBy,
  { from, to }: { readonly from: string; readonly to: string | null },
): Promise<MonthOfYear | undefined> => {
  const { rows } = await tx.query<MonthOfYear>(sql`
    with newest as (
      select distinct on (year, month) year, month, version, status, make_date(year, month, 1) as first
      from planner_months where client_id = ${client_id} order by year, month, step desc),
    later as (
      select * from (
        select distinct on (contract_id) status, effective_from, effective_to from segment_commissions
        where client_id = ${client_id} and partner_id = ${partner_id} and event_type = ${event_type}
          and segment is not distinct from ${segment}::text and effective_from > ${effective_from}::date
        order by contract_id, version desc) newest
      where status = 'active')
    select year, month from newest n
    where status = 'approved' and first + interval '1 month' > ${from}::date
      and (${to}::date is null or first < ${to}::date)
      and exists (
        select from planner_lines l
        where l.client_id = ${client_id} and l.year = n.year and l.month = n.month and l.version = n.version
          and l.partner_id = ${partner_id}
          and (l.segment is null or ${segment}::text is null or l.segment = ${segment}::text))
      and not exists (
        select from later
        where effective_from <= n.first and (effective_to is null or effective_to >= n.first + interval '1 month'))
    order by year, month limit 1`);
  return rows[0];
};
