// Reads the rows of reference data in the form of the processors: times in milliseconds, rates in
// parts per million.
import { hash } from "node:crypto";
import type pg from "pg";
import { startOfDay } from "../../../domain/calendar.ts";
import { personalForm } from "../../../domain/personal/personal-form.ts";
import type {
  Campaign,
  Cap,
  CapPeriod,
  Client,
  Contract,
  Link,
  Partner,
  ReferenceRows,
  Rule,
  Tier,
} from "../../../domain/reference/reference.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/**
 * Rows hold days of America/Mexico_City as people entered them; the calendar of the processors says
 * when they begin.
 */
const startOf = (day: string | null): UnixMs | null => (day === null ? null : startOfDay(day));
/** The last day is included, so the end is the first millisecond of the next day. */
const endOf = (day: string | null): UnixMs | null => (day === null ? null : startOfDay(nextDay(day)));
const nextDay = (day: string): string =>
  new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);

/** A row whose times are still days. */
type InDays<Row, Times extends keyof Row> = Omit<Row, Times> & {
  readonly [Time in Times]: null extends Row[Time] ? string | null : string;
};

type ReadRows = <Row extends object>(columns: Sql, table: string) => Promise<readonly Row[]>;

/** Reads the rows of a table that were saved after a change, oldest first. */
const rowsOf =
  (tx: pg.PoolClient, change: number): ReadRows =>
  async <Row extends object>(columns: Sql, table: string): Promise<readonly Row[]> => {
    const saved: Sql = { text: ` from ${table} r join reference_changes c using (change_id)`, values: [] };
    return (
      await tx.query<Row>(
        sql`select ${columns}, r.version, c.recorded_at, r.valid_from ${saved}
          where change_id > ${change} order by change_id`,
      )
    ).rows;
  };

const clientsOf = (read: ReadRows): Promise<readonly Client[]> =>
  read<Client>(
    sql`client_id, slug, name, status, currency, click_window_days, install_window_days, identity_link, hold_days,
      late_hours, fraud_review, fraud_reject,
      fraud_nightly, consent_default, jurisdiction, fraud_rules, fraud_exclusions, segments, fallback_url`,
    "clients",
  );

const partnersOf = async (read: ReadRows): Promise<readonly Partner[]> => {
  const rows = await read<Omit<Partner, "email_sha256"> & { readonly email: string | null }>(
    sql`partner_id, name, status, client_ids, referral_code, email`,
    "partners",
  );
  return rows.map(({ email, ...row }) => ({
    ...row,
    email_sha256: email === null ? null : hash("sha256", personalForm("email", email), "hex"),
  }));
};

const campaignsOf = async (read: ReadRows): Promise<readonly Campaign[]> => {
  const rows = await read<InDays<Campaign, "starts_at" | "ends_at">>(
    sql`campaign_id, client_id, name, status, starts_on as starts_at, ends_on as ends_at, patterns,
      destination_url, fallback_url`,
    "campaigns",
  );
  return rows.map((row) => ({ ...row, starts_at: startOf(row.starts_at), ends_at: endOf(row.ends_at) }));
};

const linksOf = (read: ReadRows): Promise<readonly Link[]> =>
  read<Link>(sql`link_id, client_id, campaign_id, partner_id, code, status`, "links");

const contractsOf = async (read: ReadRows): Promise<readonly Contract[]> => {
  const rows = await read<
    Omit<InDays<Contract, "effective_from" | "effective_to">, "tiers" | "cap"> & {
      readonly saved_tiers: unknown;
      readonly cap_period: CapPeriod | null;
      readonly cap_minor: bigint | null;
    }
  >(
    sql`contract_id, client_id, partner_id, segment, event_type, type, (rate * 10000)::int8 as rate_ppm,
      currency, amount_minor,
      tiers as saved_tiers, coalesce(tier_mode, 'marginal') as tier_mode, months, per, min_minor, max_minor, cap_period,
      cap_minor, status,
      effective_from, effective_to`,
    "segment_commissions",
  );
  return rows.map(({ saved_tiers, cap_period, cap_minor, ...row }) => ({
    ...row,
    tiers: tiersOf(saved_tiers),
    cap: capOf(cap_period, cap_minor),
    effective_from: startOfDay(row.effective_from),
    effective_to: startOf(row.effective_to),
  }));
};

const rulesOf = async (read: ReadRows): Promise<readonly Rule[]> => {
  const rows = await read<InDays<Rule, "effective_from" | "effective_to">>(
    sql`rule_id, client_id, name, status, priority, effective_from, effective_to, "when", "then"`,
    "rules",
  );
  return rows.map((row) => ({
    ...row,
    effective_from: startOf(row.effective_from),
    effective_to: startOf(row.effective_to),
  }));
};

/**
 * Reads everything that was saved after a change, oldest first. Needs a transaction in the role
 * tributary_reference, which reads all tenants.
 */
export const rowsAfter = async (tx: pg.PoolClient, change: number): Promise<ReferenceRows> => {
  const read = rowsOf(tx, change);
  return {
    clients: await clientsOf(read),
    partners: await partnersOf(read),
    campaigns: await campaignsOf(read),
    links: await linksOf(read),
    contracts: await contractsOf(read),
    rules: await rulesOf(read),
    // An approved payment closes its period; there are no payments yet.
    periods: [],
  };
};

/**
 * The tiers of a saved contract, as modules/catalog/contracts/contract-terms.ts writes them. A tier
 * of another form was written by something else: its contract then has no tiers and pays nothing.
 */
export const tiersOf = (saved: unknown): readonly Tier[] => {
  if (!Array.isArray(saved)) return [];
  const tiers = saved.map((one: Record<string, any> | null): Tier | undefined => {
    const { from, rate, amount } = one ?? {};
    if (!/^\d{1,18}$/.test(from)) return undefined;
    if (/^\d{1,3}(\.\d{1,4})?$/.test(rate)) return { from: BigInt(from), rate_ppm: ppmOf(rate), amount_minor: null };
    return /^\d{1,18}$/.test(amount) ? { from: BigInt(from), rate_ppm: null, amount_minor: BigInt(amount) } : undefined;
  });
  return tiers.every((one) => one !== undefined) ? tiers : [];
};
const ppmOf = (rate: string): bigint => {
  const [whole = "0", fraction = ""] = rate.split(".");
  return BigInt(whole) * 10_000n + BigInt(fraction.padEnd(4, "0"));
};

export const capOf = (period: Cap["period"] | null, amountMinor: bigint | null): Cap | null =>
  period === null || amountMinor === null ? null : { period, amount_minor: amountMinor };

export const noRows: ReferenceRows = {
  clients: [],
  partners: [],
  campaigns: [],
  links: [],
  contracts: [],
  rules: [],
  periods: [],
};

export const joined = (older: ReferenceRows, newer: ReferenceRows): ReferenceRows => ({
  clients: [...older.clients, ...newer.clients],
  partners: [...older.partners, ...newer.partners],
  campaigns: [...older.campaigns, ...newer.campaigns],
  links: [...older.links, ...newer.links],
  contracts: [...older.contracts, ...newer.contracts],
  rules: [...older.rules, ...newer.rules],
  periods: [...older.periods, ...newer.periods],
});
