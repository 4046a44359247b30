// sinks/postgres/reference-rows.ts - reads the rows of reference data as processors know them: times in milliseconds, rates in parts per million.
import type pg from "pg";
import type { Campaign, Client, Contract, Link, Partner, ReferenceRows, Rule } from "../../processors/reference.ts";
import { type Sql, sql } from "./sql.ts";

/** Days are those of America/Mexico_City. */
const dayStart = (column: string): Sql => ({ text: `(${column}::timestamp at time zone 'America/Mexico_City')`, values: [] });
const dayAfter = (column: string): Sql => ({ text: `((${column} + 1)::timestamp at time zone 'America/Mexico_City')`, values: [] });

/** Everything that was saved after one change, oldest first. Needs a transaction in the role tributary_reference, which reads all tenants. */
export const rowsAfter = async (tx: pg.PoolClient, change: number): Promise<ReferenceRows> => {
  const read = async <Row extends object>(columns: Sql, table: string): Promise<readonly Row[]> => {
    const saved: Sql = { text: ` from ${table} r join reference_changes c using (change_id)`, values: [] };
    return (
      await tx.query<Row>(sql`select ${columns}, c.recorded_at, r.valid_from ${saved} where change_id > ${change} order by change_id`)
    ).rows;
  };
  // One connection: these go one after the other, whatever is awaited together.
  return {
    clients: await read<Client>(
      sql`client_id, slug, name, status, currency, click_window_days, install_window_days, identity_link, hold_days, fraud_review, fraud_reject,
        consent_default, segments`,
      "clients",
    ),
    partners: await read<Partner>(sql`partner_id, name, status, client_ids, referral_code`, "partners"),
    campaigns: await read<Campaign>(
      sql`campaign_id, client_id, name, status, ${dayStart("starts_on")} as starts_at, ${dayAfter("ends_on")} as ends_at`,
      "campaigns",
    ),
    links: await read<Link>(sql`link_id, client_id, campaign_id, partner_id, code, status`, "links"),
    contracts: await read<Contract>(
      sql`contract_id, version, client_id, partner_id, segment, event_type, type, (rate * 10000)::int8 as rate_ppm, amount_minor, status,
        ${dayStart("effective_from")} as effective_from, ${dayStart("effective_to")} as effective_to`,
      "segment_commissions",
    ),
    rules: await read<Rule>(
      sql`rule_id, version, client_id, name, status, priority, ${dayStart("effective_from")} as effective_from,
        ${dayStart("effective_to")} as effective_to, "when", "then"`,
      "rules",
    ),
  };
};

export const noRows: ReferenceRows = { clients: [], partners: [], campaigns: [], links: [], contracts: [], rules: [] };

export const joined = (older: ReferenceRows, newer: ReferenceRows): ReferenceRows => ({
  clients: [...older.clients, ...newer.clients],
  partners: [...older.partners, ...newer.partners],
  campaigns: [...older.campaigns, ...newer.campaigns],
  links: [...older.links, ...newer.links],
  contracts: [...older.contracts, ...newer.contracts],
  rules: [...older.rules, ...newer.rules],
});
