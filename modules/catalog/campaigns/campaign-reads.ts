// Reads campaigns for the platform API: the newest row of each, with its links.
import type { PoolClient } from "pg";
import { type RowsQuery, selecting } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import { linkAddress, type PublicHosts } from "../../base/public-hosts.ts";
import { missing } from "../../base/refusal.ts";
import { newestRows, type ShownRow } from "../clients/client-reads.ts";

export interface CampaignFilter {
  readonly client_id?: number | undefined;
  readonly status?: string | undefined;
  /** Only campaigns with an active link of this partner. */
  readonly partner_id?: number | undefined;
  /** The beginning of the name. */
  readonly q?: string | undefined;
  /** Undefined for both archived and other campaigns. */
  readonly archived?: boolean | undefined;
}

type Hosts = Pick<PublicHosts, "tracking">;

/** The links of campaign `c`, the newest row of each. */
const linksAt = (hosts: Hosts): Sql => sql`(
  select coalesce(jsonb_agg(jsonb_build_object('partner_id', l.partner_id, 'code', l.code, 'status', l.status,
    'url', ${linkAddress(hosts, "")}::text || l.code) order by l.link_id), '[]')
  from (select distinct on (link_id) * from links where campaign_id = c.campaign_id order by link_id, version desc) l)`;

const conditionsOf = ({ client_id, status, partner_id, q, archived }: CampaignFilter): readonly Sql[] => [
  client_id === undefined ? sql`true` : sql`c.client_id = ${client_id}`,
  status === undefined ? sql`true` : sql`c.status = ${status}`,
  q === undefined ? sql`true` : sql`starts_with(lower(c.name), lower(${q}::text))`,
  archived === undefined ? sql`true` : sql`coalesce(c.archived, false) = ${archived}`,
  partner_id === undefined
    ? sql`true`
    : sql`exists (
        select 1 from (
          select distinct on (link_id) status, partner_id from links where campaign_id = c.campaign_id
          order by link_id, version desc) l
        where l.status = 'active' and l.partner_id = ${partner_id})`,
];

/** A sort key must not be null, so campaigns without a first day come first. */
const firstDay = sql`coalesce(c.starts_on, '0001-01-01'::date)`;

export const campaignRows = (filter: CampaignFilter, hosts: Hosts): RowsQuery => ({
  columns: {
    id: sql`c.campaign_id`,
    client_id: sql`c.client_id`,
    name: sql`c.name`,
    status: sql`c.status`,
    archived: sql`coalesce(c.archived, false)`,
    starts_on: sql`c.starts_on`,
    ends_on: sql`c.ends_on`,
    destination_url: sql`c.destination_url`,
    fallback_url: sql`c.fallback_url`,
    patterns: sql`c.patterns`,
    links: linksAt(hosts),
    version: sql`c.version`,
    created_at: sql`made.recorded_at`,
    updated_at: sql`changed.recorded_at`,
  },
  from: newestRows("campaigns", "campaign_id", "c"),
  tenant: sql`c.client_id`,
  where: conditionsOf(filter),
  sorts: {
    created_at: { by: sql`made.recorded_at`, type: "timestamptz" },
    name: { by: sql`c.name`, type: "text" },
    starts_on: { by: firstDay, type: "date" },
  },
  id: { by: sql`c.campaign_id`, type: "int" },
});

export interface Pattern {
  readonly kind: "utm_source" | "utm_campaign" | "coupon" | "url_prefix";
  readonly value: string;
  readonly partner_id?: number | undefined;
}
/** The state that decides which changes a campaign allows. */
export interface CampaignState {
  readonly id: number;
  readonly client_id: number;
  readonly name: string;
  readonly status: "draft" | "active" | "paused" | "ended";
  readonly archived: boolean;
  readonly starts_on: string | null;
  readonly ends_on: string | null;
  readonly destination_url: string;
  readonly fallback_url: string | null;
  readonly patterns: readonly Pattern[];
  readonly version: number;
}
const STATE_FIELDS: readonly (keyof CampaignState)[] = [
  ...(["id", "client_id", "name", "status", "archived", "starts_on", "ends_on"] as const),
  ...(["destination_url", "fallback_url", "patterns", "version"] as const),
];
/** A state has no links, so it needs no host. */
const STATE: CampaignView = { fields: STATE_FIELDS, hosts: { tracking: undefined } };

/** The fields of a campaign, and where its links lead. */
export interface CampaignView {
  readonly fields: readonly string[];
  readonly hosts: Hosts;
}

const findCampaign = async (
  tx: PoolClient,
  campaignId: number,
  clients: readonly number[],
  { fields, hosts }: CampaignView,
): Promise<ShownRow | undefined> => {
  const { columns, from } = campaignRows({}, hosts);
  const { rows } = await tx.query<ShownRow>(sql`
    select ${selecting(columns, fields)} from ${from}
    where c.campaign_id = ${campaignId} and c.client_id = any (${clients}::int[])`);
  return rows[0];
};

/**
 * Returns these fields of the campaign. Throws RefusalError: missing when it belongs to none of
 * these clients.
 */
export const readCampaign = async (...campaign: Parameters<typeof findCampaign>): Promise<ShownRow> => {
  const found = await findCampaign(...campaign);
  if (found === undefined) throw missing();
  return found;
};

/** The state of the campaign; undefined if it belongs to none of these clients. */
export const campaignState = async (
  tx: PoolClient,
  campaignId: number,
  clients: readonly number[],
): Promise<CampaignState | undefined> =>
  (await findCampaign(tx, campaignId, clients, STATE)) as CampaignState | undefined;

/** Returns the state of the campaign. Throws RefusalError: missing. */
export const campaignOf = async (
  tx: PoolClient,
  campaignId: number,
  clients: readonly number[],
): Promise<CampaignState> => (await readCampaign(tx, campaignId, clients, STATE)) as CampaignState;

export interface LinkOfCampaign {
  readonly link_id: number;
  readonly partner_id: number;
  readonly code: string;
  readonly status: "active" | "archived";
}

/** The links of the campaign, oldest first. */
export const linksOf = async (tx: PoolClient, campaignId: number): Promise<readonly LinkOfCampaign[]> =>
  (
    await tx.query<LinkOfCampaign>(sql`
      select distinct on (link_id) link_id, partner_id, code, status from links where campaign_id = ${campaignId}
      order by link_id, version desc`)
  ).rows;

export interface LinkState {
  readonly campaign_id: number;
  readonly partner_id: number;
  readonly status: LinkOfCampaign["status"];
}

/** The state of the link; undefined if it belongs to none of these clients. */
export const readLink = async (
  tx: PoolClient,
  linkId: number,
  clients: readonly number[],
): Promise<LinkState | undefined> => {
  const { rows } = await tx.query<LinkState>(sql`
    select campaign_id, partner_id, status from links
    where link_id = ${linkId} and client_id = any (${clients}::int[]) order by version desc limit 1`);
  return rows[0];
};
