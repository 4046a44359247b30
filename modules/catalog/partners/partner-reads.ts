// Reads partners for the platform API: the newest row of each. Only clients that the caller may see
// are shown.
import type { PoolClient } from "pg";
import { toDecimal, toMinor } from "../../../domain/money.ts";
import { type Expressions, type RowsQuery, selecting } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import { balanceIn, isSettled, type OwedByClient, owedByClients } from "./balance.ts";

export interface PartnerFilter {
  readonly client_id?: number | undefined;
  /** If absent, archived partners are left out. */
  readonly status?: "invited" | "active" | "paused" | "archived" | "all" | undefined;
  /** The beginning of the name or the referral code. */
  readonly q?: string | undefined;
}
export type ShownRow = Readonly<Record<string, any>>;

const columnsIn = (scope: Sql): Expressions => ({
  id: sql`p.partner_id`,
  name: sql`p.name`,
  email: sql`p.email`,
  status: sql`p.status`,
  client_ids: sql`(select coalesce(array_agg(c order by c), '{}') from unnest(p.client_ids) c
    where c = any (${scope}))`,
  payout: sql`jsonb_build_object('currency', p.payout_currency, 'min_amount',
    trim_scale(p.payout_min_amount)::text)`,
  referral_code: sql`p.referral_code`,
  balance: sql`jsonb_build_object('currency', p.payout_currency, 'owed', ${owedByClients(scope)})`,
  version: sql`p.version`,
  created_at: sql`made.recorded_at`,
  updated_at: sql`changed.recorded_at`,
});

/**
 * Users who see one client must not see rows from before that client knew the partner. For them the
 * partner was created with the first row that names the client.
 */
const partnersIn = (scope: Sql): Sql => sql`
  (select distinct on (partner_id) * from partners where known_to && ${scope}
    order by partner_id, version desc) p
  join (select distinct on (partner_id) partner_id, change_id from partners where known_to && ${scope}
    order by partner_id, version) first on first.partner_id = p.partner_id
  join reference_changes made on made.change_id = first.change_id
  join reference_changes changed on changed.change_id = p.change_id`;

const statusIs = (status: PartnerFilter["status"]): Sql =>
  status === "all" ? sql`true` : status === undefined ? sql`p.status <> 'archived'` : sql`p.status = ${status}`;

/** Partners that work or worked for a client in the scope. */
export const partnerRows = ({ client_id, status, q }: PartnerFilter): RowsQuery => {
  // A subquery, so that it runs once per statement and not once per row.
  const scope = sql`(select app_clients())::int[]`;
  return {
    columns: columnsIn(scope),
    from: partnersIn(scope),
    // Any client of the partner that the caller may see.
    tenant: sql`(select min(c) from unnest(p.known_to) c where c = any (${scope}))`,
    where: [
      statusIs(status),
      client_id === undefined ? sql`true` : sql`${client_id}::int = any (p.client_ids)`,
      q === undefined
        ? sql`true`
        : sql`starts_with(lower(p.name), lower(${q}::text))
          or starts_with(lower(p.referral_code), lower(${q}::text))`,
    ],
    sorts: { name: { by: sql`p.name`, type: "text" }, created_at: { by: sql`made.recorded_at`, type: "timestamptz" } },
    id: { by: sql`p.partner_id`, type: "int" },
  };
};

/** A partner row in the form of API responses, with decimal amounts. */
export const shownPartner = ({ payout, balance, ...row }: ShownRow): ShownRow => ({
  ...row,
  ...(payout && { payout: { ...payout, min_amount: written(payout.min_amount, payout.currency) } }),
  ...(balance && { balance: balanceIn(balance.currency, balance.owed) }),
});

/** An amount with more digits than its currency stays unchanged. */
const written = (amount: string, currency: string): string => {
  const read = toMinor(amount, currency);
  return read.kind === "amount" ? toDecimal(read.minor, currency) : amount;
};

/**
 * The fields that decide whether a partner may be changed; read together with the requested fields.
 */
export interface PartnerState {
  readonly partner_id: number;
  readonly version: number;
  readonly status: "invited" | "active" | "paused" | "archived";
  /** All clients of the partner, including those that the caller may not see. */
  readonly client_ids: readonly number[];
  /** These, and the clients for which it worked before. */
  readonly known_to: readonly number[];
}

/** The partner if it works or worked for one of these clients, otherwise undefined. */
export const readPartner = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
  names: readonly string[],
): Promise<{ readonly state: PartnerState; readonly shown: ShownRow } | undefined> => {
  const scope = sql`${clients}::int[]`;
  const { rows } = await tx.query<ShownRow>(sql`
    select ${selecting(columnsIn(scope), names)}, jsonb_build_object('partner_id', p.partner_id,
      'version', p.version, 'status', p.status, 'client_ids', p.client_ids, 'known_to', p.known_to) as "~state"
    from ${partnersIn(scope)} where p.partner_id = ${partnerId}`);
  const [found] = rows;
  if (found === undefined) return undefined;
  const { "~state": state, ...shown } = found;
  return { state, shown: shownPartner(shown) };
};

/** The given partners that work or worked for one of the clients. */
export const partnerStates = async (
  tx: PoolClient,
  partners: readonly number[],
  clients: readonly number[],
): Promise<ReadonlyMap<number, PartnerState>> => {
  const { rows } = await tx.query<PartnerState>(sql`
    select p.partner_id, p.version, p.status, p.client_ids, p.known_to
    from ${partnersIn(sql`${clients}::int[]`)} where p.partner_id = any (${partners}::int[])`);
  return new Map(rows.map((row) => [row.partner_id, row]));
};

export interface ClientOf {
  readonly id: number;
  readonly name: string;
  readonly status: "active" | "paused" | "archived";
  readonly currency: string;
}

/** The ids that are among `clients`, with their names. */
export const clientsAmong = async (
  tx: PoolClient,
  ids: readonly number[],
  clients: readonly number[],
): Promise<readonly ClientOf[]> => {
  const { rows } = await tx.query<ClientOf>(sql`
    select id, name, status, currency from (
      select distinct on (client_id) client_id as id, name, status, currency from clients
      where client_id = any (${ids}::int[]) and client_id = any (${clients}::int[])
      order by client_id, version desc) newest
    order by name, id`);
  return rows;
};

/** The most links that are listed for a partner; the newest ones if it has more. */
const MOST_LINKS = 1_000;
interface PartnerLink {
  readonly link_id: number;
  readonly campaign_id: number;
  readonly campaign: string;
  readonly code: string;
  readonly status: "active" | "archived";
}

/** The partner's links at these clients, active ones first. */
export const linksOfPartner = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
): Promise<readonly PartnerLink[]> => {
  const { rows } = await tx.query<PartnerLink>(sql`
    select l.link_id, l.campaign_id, c.name as campaign, l.code, l.status from (
      select distinct on (link_id) * from links
      where partner_id = ${partnerId} and client_id = any (${clients}::int[])
      order by link_id, version desc) l
    join lateral (select name from campaigns where campaign_id = l.campaign_id order by version desc limit 1) c on true
    order by l.status, l.link_id desc limit ${MOST_LINKS}`);
  return rows;
};

/**
 * The given addresses that another partner has at any client, unless it is archived; in lower case.
 * The caller must hold the lock of reference data.
 */
export const takenAddresses = async (
  tx: PoolClient,
  emails: readonly string[],
  partnerId: number | undefined,
): Promise<ReadonlySet<string>> => {
  // Partners of other tenants count too, so the query runs in the role that reads all of them.
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<{ email: string }>(sql`
    select distinct lower(p.email) as email from (
      select distinct on (partner_id) partner_id, email, status from partners order by partner_id, version desc) p
    where lower(p.email) = any (${emails.map((email) => email.toLowerCase())})
      and p.partner_id is distinct from ${partnerId ?? null} and p.status <> 'archived'`);
  await tx.query("set local role none");
  return new Set(rows.map(({ email }) => email));
};

/**
 * Whether nothing is owed to or by the partner at these clients, which the transaction must see.
 */
export const hasNoBalance = async (tx: PoolClient, partnerId: number, clients: readonly number[]): Promise<boolean> => {
  const { rows } = await tx.query<{ owed: readonly OwedByClient[] }>(sql`
    select ${owedByClients(sql`${clients}::int[]`)} as owed from (select ${partnerId}::int as partner_id) p`);
  return isSettled(rows[0]!.owed);
};
