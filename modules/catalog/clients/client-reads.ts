// Reads clients and segments for the platform API: the newest row of each, with the times of the
// first and the last change.
import type { PoolClient } from "pg";
import { type RowsQuery, selecting } from "../../../infra/postgres/rows.ts";
import { named, type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import { ofWholeDays, wholeDaysSince } from "../../figures/money-days/money-days.ts";

export interface ClientFilter {
  /** If absent, archived clients are left out. */
  readonly status?: "active" | "paused" | "archived" | "all" | undefined;
  /** The beginning of the name or the slug. */
  readonly q?: string | undefined;
}

const statusOf = (status: ClientFilter["status"]): Sql =>
  status === "all" ? sql`true` : status === undefined ? sql`c.status <> 'archived'` : sql`c.status = ${status}`;

/**
 * The newest row of each record of a table, under this alias; `made` and `changed` are its first
 * and its newest change.
 */
export const newestRows = (table: "clients" | "campaigns" | "rules", idColumn: string, as: string): Sql => {
  const [rows, id, alias] = [named(table), named(idColumn), named(as)];
  return sql`(select distinct on (${id}) * from ${rows} order by ${id}, version desc) ${alias}
    join ${rows} first on first.${id} = ${alias}.${id} and first.version = 1
    join reference_changes made on made.change_id = first.change_id
    join reference_changes changed on changed.change_id = ${alias}.change_id`;
};

export const clientRows = ({ status, q }: ClientFilter): RowsQuery => ({
  columns: {
    id: sql`c.client_id`,
    name: sql`c.name`,
    slug: sql`c.slug`,
    status: sql`c.status`,
    currency: sql`c.currency`,
    attribution: sql`jsonb_build_object('click_window_days', c.click_window_days,
      'install_window_days', c.install_window_days, 'identity_link', c.identity_link)`,
    hold_days: sql`c.hold_days`,
    late_hours: sql`c.late_hours`,
    fraud: sql`jsonb_build_object('review', c.fraud_review, 'reject', c.fraud_reject)`,
    fallback_url: sql`c.fallback_url`,
    retention_months: sql`c.retention_months`,
    plan: sql`c.plan`,
    leads_in_plain: sql`c.leads_in_plain`,
    version: sql`c.version`,
    created_at: sql`made.recorded_at`,
    updated_at: sql`changed.recorded_at`,
    ingest_tokens: sql`(select coalesce(jsonb_agg(jsonb_build_object('prefix', t.prefix, 'last_used_at',
        (extract(epoch from t.last_used_at) * 1000)::bigint) order by t.token_id), '[]')
      from tokens t where t.client_id = c.client_id and t.revoked_at is null)`,
  },
  from: newestRows("clients", "client_id", "c"),
  tenant: sql`c.client_id`,
  where: [
    statusOf(status),
    q === undefined
      ? sql`true`
      : sql`starts_with(lower(c.name), lower(${q}::text)) or starts_with(c.slug, lower(${q}::text))`,
  ],
  sorts: { name: { by: sql`c.name`, type: "text" }, created_at: { by: sql`made.recorded_at`, type: "timestamptz" } },
  id: { by: sql`c.client_id`, type: "int" },
});

/**
 * The fields that decide whether a client may be changed; read together with the requested fields.
 */
interface ClientState {
  readonly client_id: number;
  readonly version: number;
  readonly status: "active" | "paused" | "archived";
}
export type ShownRow = Readonly<Record<string, any>>;
export interface ClientSnapshot {
  readonly state: ClientState;
  /** The requested fields. */
  readonly shown: ShownRow;
}

/** The client if it is among these, otherwise undefined. */
export const readClient = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  names: readonly string[],
): Promise<ClientSnapshot | undefined> => {
  const { columns, from } = clientRows({ status: "all" });
  const { rows } = await tx.query<ShownRow>(sql`
    select ${selecting(columns, names)}, jsonb_build_object('client_id', c.client_id, 'version', c.version,
      'status', c.status) as "~state"
    from ${from} where c.client_id = ${clientId} and c.client_id = any (${clients}::int[])`);
  const [found] = rows;
  if (found === undefined) return undefined;
  const { "~state": state, ...shown } = found;
  return { state, shown };
};

/** Returns the client with these fields. Throws RefusalError: missing. */
export const clientOf = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  names: readonly string[] = [],
): Promise<ClientSnapshot> => {
  const found = await readClient(tx, clientId, clients, names);
  if (found === undefined) throw missing();
  return found;
};

export interface Segment {
  readonly code: string;
  readonly name: string;
  readonly active: boolean;
  readonly version: number;
  /** The number of sale lines in the last 30 days, without copies. */
  readonly sales_30d: number;
  readonly created_at: UnixMs;
  readonly updated_at: UnixMs;
}

const DAY_MS = 86_400_000;
const SEGMENT_DAYS = 30;

/** All segments of the client, sorted by code. */
export const readSegments = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
): Promise<readonly Segment[]> => {
  const now = Date.now();
  const from = now - SEGMENT_DAYS * DAY_MS;
  const whole = wholeDaysSince(from, now);
  const { rows } = await tx.query<Segment>(sql`
    with sold as materialized (
      select segment, sum(n)::int as lines from (
        select segment, n from money_days
        where client_id = ${clientId} and client_id = any (${clients}::int[]) and ${ofWholeDays("sales", whole)}
        union all
        select segment, 1 from product_sales
        where client_id = ${clientId} and client_id = any (${clients}::int[]) and t <> 'refund' and merged_into is null
          and occurred_at >= ${new Date(from)} and occurred_at < ${new Date(whole.from)}) parts
      group by segment)
    select distinct on (s.code) s.code, s.name, s.active, s.version, coalesce(sold.lines, 0) as sales_30d,
      min(saved.recorded_at) over (partition by s.code) as created_at, saved.recorded_at as updated_at
    from segments s
    join reference_changes saved on saved.change_id = s.change_id
    left join sold on sold.segment = s.code
    where s.client_id = ${clientId} and s.client_id = any (${clients}::int[])
    order by s.code, s.version desc`);
  return rows;
};

/** One of them; undefined when the client has no segment of this code. */
export const segmentOf = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  code: string,
): Promise<Segment | undefined> => (await readSegments(tx, clientId, clients)).find((segment) => segment.code === code);

export type SavedSegment = Pick<Segment, "code" | "name" | "active" | "version">;

/** The same without sales, because counting them takes longer than a change may. */
export const savedSegments = async (tx: PoolClient, clientId: number): Promise<readonly SavedSegment[]> =>
  (
    await tx.query<SavedSegment>(sql`
      select distinct on (code) code, name, active, version from segments where client_id = ${clientId}
      order by code, version desc`)
  ).rows;

/** The client's active campaigns. */
export const activeCampaigns = async (tx: PoolClient, clientId: number): Promise<readonly number[]> => {
  const { rows } = await tx.query<{ campaign_id: number }>(sql`
    select campaign_id from (
      select distinct on (campaign_id) campaign_id, status from campaigns where client_id = ${clientId}
      order by campaign_id, version desc) newest
    where status = 'active'`);
  return rows.map(({ campaign_id }) => campaign_id);
};

/** Whether the client ever had a conversion; if so, its currency is fixed. */
export const hasConversions = async (tx: PoolClient, clientId: number): Promise<boolean> =>
  (await tx.query(sql`select 1 from conversions where client_id = ${clientId} limit 1`)).rowCount === 1;
