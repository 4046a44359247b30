// How much of each quota is spent now, for people and for the keeper.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { QuotaSide } from "./quotas.ts";

export interface QuotaUsage {
  /** 0: strangers. */
  readonly client_id: number;
  /** Null for strangers. */
  readonly slug: string | null;
  readonly plan: string;
  readonly side: QuotaSide;
  /** What is spent and has not run off yet. */
  readonly events: number;
  readonly bytes: number;
  /** The most that may be spent at once. */
  readonly most_events: number;
  readonly most_bytes: number;
  /** The larger share of the two. */
  readonly share: number;
  /** Events that were refused since ever, and when the last of them was; null: never. */
  readonly refused: number;
  readonly refused_at: UnixMs | null;
  /** The share of its last mail, 80 or 100; null if there was none since it was below 70 %. */
  readonly announced: number | null;
}

/** Reads over all clients, the most spent first; the transaction must see every client. */
export const readUsage = async (tx: PoolClient): Promise<readonly QuotaUsage[]> => {
  await tx.query("set local role tributary_reference");
  const { rows: clients } = await tx.query<{ client_id: number; slug: string; plan: string }>(
    "select distinct on (client_id) client_id, slug, plan from clients order by client_id, version desc",
  );
  await tx.query("set local role tributary_keeper");
  const { rows } = await tx.query<QuotaUsage>(sql`
    select u.client_id, c.slug, coalesce(c.plan, p.plan) as plan, u.side, n.events, n.bytes, m.events as most_events,
      m.bytes as most_bytes, greatest(n.events / m.events, n.bytes / m.bytes) as share, u.refused::float8,
      u.refused_at, u.announced
    from intake_usage u
    left join jsonb_to_recordset(${JSON.stringify(clients)}::jsonb) as c (client_id int, slug text, plan text)
      using (client_id)
    cross join lateral (select * from intake_plans i
      where i.plan in (case u.client_id when 0 then 'strangers' else coalesce(c.plan, 'standard') end, 'standard')
      order by i.plan = 'standard' limit 1) p
    cross join lateral (
      select greatest(0, extract(epoch from clock_timestamp() - u.measured_at)::float8) / 86400 as days) r
    cross join lateral (select greatest(0, u.events - p.events_a_day * r.days) as events,
      greatest(0, u.bytes - p.bytes_a_day * r.days) as bytes) n
    cross join lateral (select p.events_a_day * p.burst_hours / 24.0::float8 as events,
      p.bytes_a_day * p.burst_hours / 24.0::float8 as bytes) m
    order by share desc, u.client_id, u.side`);
  await tx.query("set local role none");
  return rows;
};

export interface QuotaPlan {
  readonly plan: string;
  readonly events_a_day: number;
  readonly bytes_a_day: number;
  readonly burst_hours: number;
}

export const readPlans = async (tx: PoolClient): Promise<readonly QuotaPlan[]> => {
  const { rows } = await tx.query<QuotaPlan>(
    `select plan, events_a_day::float8, bytes_a_day::float8, burst_hours from intake_plans
      order by plan = 'standard' desc, plan`,
  );
  return rows;
};
