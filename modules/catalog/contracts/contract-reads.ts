// Reads a partner's contracts for the platform API: those in force, their versions, and conversions
// that were settled before a contract was known.
import type { PoolClient } from "pg";
import { startOfDay } from "../../../domain/calendar.ts";
import { toDecimal } from "../../../domain/money.ts";
import { contractTypeOf } from "../../../domain/reference/reference.ts";
import { type Expressions, type RowsQuery, selecting } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import { termsOf } from "./contract-terms.ts";

export interface ContractFilter {
  readonly client_id?: number | undefined;
  readonly event_type?: string | undefined;
  readonly segment?: string | undefined;
  /** Only contracts in force on this day. */
  readonly at?: string | undefined;
  /** All versions, also of archived contracts. */
  readonly hasHistory?: boolean;
}
type Row = Readonly<Record<string, any>>;

/** Whether the contract with this alias covers the day of an expression. */
export const covers = (contract: Sql, day: Sql): Sql => sql`(${contract}.status = 'active'
  and ${contract}.effective_from <= ${day}
  and (${contract}.effective_to is null or ${contract}.effective_to > ${day}))`;
export const alias = (name: string): Sql => ({ text: name, values: [] });

/** The newest version of each contract of a partner. */
const newestOf = (partnerId: number): Sql => sql`
  (select distinct on (contract_id) * from segment_commissions where partner_id = ${partnerId}
    order by contract_id, version desc)`;

const columnsOn = (partnerId: number, day: string): Expressions => ({
  id: sql`k.contract_id`,
  partner_id: sql`k.partner_id`,
  client_id: sql`k.client_id`,
  segment: sql`k.segment`,
  event_type: sql`k.event_type`,
  type: sql`k.type`,
  rate: sql`trim_scale(k.rate)::text`,
  amount: sql`k.amount_minor::text`,
  tiers: sql`k.tiers`,
  tier_mode: sql`k.tier_mode`,
  months: sql`k.months`,
  per: sql`k.per`,
  min: sql`k.min_minor::text`,
  max: sql`k.max_minor::text`,
  cap: sql`case when k.cap_minor is not null
    then jsonb_build_object('period', k.cap_period, 'amount', k.cap_minor::text) end`,
  currency: sql`k.currency`,
  status: sql`k.status`,
  effective_from: sql`k.effective_from`,
  effective_to: sql`k.effective_to`,
  version: sql`k.version`,
  recorded_at: sql`saved.recorded_at`,
  created_at: sql`(select made.recorded_at from segment_commissions f
    join reference_changes made on made.change_id = f.change_id
    where f.contract_id = k.contract_id order by f.version limit 1)`,
  updated_at: sql`saved.recorded_at`,
  in_force: isInForce(partnerId, day),
});

/** If several contracts cover a day, the one with the newest effective_from is in force. */
const isInForce = (partnerId: number, day: string): Sql => sql`(k.is_newest
  and ${covers(alias("k"), sql`${day}::date`)}
  and not exists (select from ${newestOf(partnerId)} o
    where o.client_id = k.client_id and o.event_type = k.event_type and o.segment is not distinct from k.segment
      and o.effective_from > k.effective_from and ${covers(alias("o"), sql`${day}::date`)}))`;

const contractsOf = (partnerId: number): Sql => sql`
  (select *, version = max(version) over (partition by contract_id) as is_newest
    from segment_commissions where partner_id = ${partnerId}) k
  join reference_changes saved on saved.change_id = k.change_id`;

/** `today` is the day for `in_force` if `at` is not given. */
export const contractRows = (partnerId: number, today: string, filter: ContractFilter): RowsQuery => {
  const { client_id, event_type, segment, at, hasHistory = false } = filter;
  const given: readonly (Sql | undefined)[] = [
    hasHistory ? undefined : sql`k.is_newest and k.status = 'active'`,
    client_id === undefined ? undefined : sql`k.client_id = ${client_id}`,
    event_type === undefined ? undefined : sql`k.event_type = ${event_type}`,
    segment === undefined ? undefined : sql`k.segment = ${segment}`,
    at === undefined ? undefined : isInForce(partnerId, at),
  ];
  return {
    columns: columnsOn(partnerId, at ?? today),
    from: contractsOf(partnerId),
    tenant: sql`k.client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { effective_from: { by: sql`k.effective_from`, type: "date" } },
    id: { by: sql`((k.contract_id::bigint << 32) + k.version)`, type: "bigint" },
  };
};

/** A contract row in the form of API responses, with decimal amounts. */
export const shownContract = (row: Row): Row => {
  const { amount, min, max, cap, type, rate, tiers, tier_mode, months, per, currency } = row;
  const saved = { type, rate, tiers, tier_mode, months, per, currency };
  const minor = { amount_minor: amount, min_minor: min, max_minor: max };
  const { tier_mode: mode, ...terms } = termsOf({
    ...saved,
    ...minor,
    cap_period: cap?.period ?? null,
    cap_minor: cap?.amount ?? null,
  });
  // Without tiers, the tier mode has no meaning.
  return { ...row, ...terms, tier_mode: type === "tiered" ? mode : null };
};

/**
 * Partner, client, segment, event type and first day identify a contract; saving them again makes
 * its next version.
 */
export interface ContractKey {
  readonly partner_id: number;
  readonly client_id: number;
  readonly segment: string | null;
  readonly event_type: string;
  readonly effective_from: string;
}

/** The id of the contract with this key; undefined if there is none. */
export const contractIdOf = async (tx: PoolClient, key: Partial<ContractKey>): Promise<number | undefined> => {
  const { rows } = await tx.query<{ contract_id: number }>(sql`
    select contract_id from segment_commissions
    where partner_id = ${key.partner_id ?? null}::int and client_id = ${key.client_id ?? null}::int
      and segment is not distinct from ${key.segment ?? null}::text
      and event_type = ${key.event_type ?? null}::text and effective_from = ${key.effective_from ?? null}::date
    limit 1`);
  return rows[0]?.contract_id;
};

export interface SavedTerm {
  readonly contract_id: number;
  readonly status: "active" | "archived";
  readonly effective_to: string | null;
}

/** The contracts with these keys in the order of the keys; undefined where there is none. */
export const savedTerms = async (
  tx: PoolClient,
  keys: readonly ContractKey[],
): Promise<readonly (SavedTerm | undefined)[]> => {
  const { rows } = await tx.query<SavedTerm & { readonly n: number }>(sql`
    select k.n::int as n, c.contract_id, c.status, c.effective_to
    from rows from (jsonb_to_recordset(${JSON.stringify(keys)}::jsonb) as (partner_id int, client_id int, segment text,
      event_type text, effective_from date)) with ordinality
      as k (partner_id, client_id, segment, event_type, effective_from, n)
    cross join lateral (
      select contract_id, status, effective_to from segment_commissions s
      where s.partner_id = k.partner_id and s.client_id = k.client_id and s.segment is not distinct from k.segment
        and s.event_type = k.event_type and s.effective_from = k.effective_from
      order by s.version desc limit 1) c`);
  const byPlace = new Map(rows.map(({ n, ...term }) => [n, term]));
  return keys.map((_, n) => byPlace.get(n + 1));
};

/** The newest version of the contract, archived or not; undefined if there is none. */
export const contractOf = async (
  tx: PoolClient,
  { partner_id, client_id, segment, event_type, effective_from }: ContractKey,
  names: readonly string[],
  today: string,
): Promise<Row | undefined> => {
  const { rows } = await tx.query<Row>(sql`
    select ${selecting(columnsOn(partner_id, today), names)} from ${contractsOf(partner_id)}
    where k.is_newest and k.client_id = ${client_id} and k.segment is not distinct from ${segment}
      and k.event_type = ${event_type} and k.effective_from = ${effective_from}::date`);
  return rows[0] === undefined ? undefined : shownContract(rows[0]);
};

export interface NotApplied {
  readonly conversions: number;
  /** A decimal in `currency`. */
  readonly commission: string;
  readonly currency: string;
  readonly other_currencies: readonly { readonly commission: string; readonly currency: string }[];
}

/**
 * Credited conversions that the contract would have paid, had it been known when they were
 * received. They keep their earnings. Conversions for which another contract has precedence, by its
 * segment or a newer first day, are left out.
 */
export const settledBefore = async (
  tx: PoolClient,
  { partner_id, client_id, segment, event_type, effective_from }: ContractKey,
  effectiveTo: string | null,
  currency: string,
): Promise<NotApplied> => {
  const types = event_type === contractTypeOf("ext_purchase") ? [event_type, "ext_purchase"] : [event_type];
  const until = effectiveTo === null ? sql`true` : sql`c.occurred_at < ${new Date(startOfDay(effectiveTo))}`;
  const { rows } = await tx.query<{ currency: string | null; conversions: number; commission: string }>(sql`
    with others as (
      select * from ${newestOf(partner_id)} o where o.client_id = ${client_id} and o.event_type = ${event_type})
    select m.currency, count(*)::int as conversions, coalesce(sum(m.amount_minor), 0)::text as commission
    from conversions c
    cross join lateral (select (c.occurred_at at time zone 'America/Mexico_City')::date as day) sold
    left join commissions m on m.client_id = c.client_id and m.conversion_id = c.conversion_id
    where c.partner_id = ${partner_id} and c.client_id = ${client_id} and c.status = 'credited'
      and c.event_type = any (${types}::text[])
      and c.occurred_at >= ${new Date(startOfDay(effective_from))} and ${until}
      and (${segment}::text is null or c.segment = ${segment}::text)
      and not exists (select from others o where ${covers(alias("o"), alias("sold.day"))} and case
        when ${segment}::text is null and o.segment is not null then o.segment = c.segment
        when o.segment is not distinct from ${segment}::text then o.effective_from > ${effective_from}::date
        else false end)
    group by m.currency order by m.currency`);
  const earned = rows.flatMap((row) => (row.currency === null ? [] : [{ ...row, currency: row.currency }]));
  const sumIn = (code: string): string =>
    toDecimal(BigInt(earned.find((one) => one.currency === code)?.commission ?? 0), code);
  return {
    conversions: rows.reduce((all, row) => all + row.conversions, 0),
    commission: sumIn(currency),
    currency,
    other_currencies: earned
      .filter((one) => one.currency !== currency)
      .map((one) => ({ commission: sumIn(one.currency), currency: one.currency })),
  };
};

/** The links and contracts that end when a partner leaves these clients. */
export const endedByLeaving = async (
  tx: PoolClient,
  partnerId: number,
  clients: readonly number[],
  today: string,
): Promise<{
  readonly links: readonly number[];
  readonly contracts: readonly { readonly contract_id: number; readonly hasBegun: boolean }[];
}> => {
  const { rows: links } = await tx.query<{ link_id: number }>(sql`
    select link_id from (select distinct on (link_id) link_id, status from links
      where partner_id = ${partnerId} and client_id = any (${clients}::int[]) order by link_id, version desc) newest
    where status = 'active' order by link_id`);
  const { rows: contracts } = await tx.query<{ contract_id: number; hasBegun: boolean }>(sql`
    select contract_id, effective_from < ${today}::date as "hasBegun" from ${newestOf(partnerId)} k
    where client_id = any (${clients}::int[]) and status = 'active'
      and (effective_to is null or effective_to > ${today}::date)
    order by contract_id`);
  return { links: links.map(({ link_id }) => link_id), contracts };
};

/** Event types for which these partners have contracts with the client, now or later. */
export const paidFor = async (
  tx: PoolClient,
  clientId: number,
  partners: readonly number[],
  today: string,
): Promise<ReadonlyMap<number, readonly string[]>> => {
  const { rows } = await tx.query<{ partner_id: number; types: readonly string[] }>(sql`
    select partner_id, array_agg(distinct event_type order by event_type) as types from (
      select distinct on (contract_id) partner_id, event_type, status, effective_to from segment_commissions
      where client_id = ${clientId} and partner_id = any (${partners}::int[])
      order by contract_id, version desc) newest
    where status = 'active' and (effective_to is null or effective_to > ${today}::date)
    group by partner_id`);
  return new Map(rows.map(({ partner_id, types }) => [partner_id, types]));
};
