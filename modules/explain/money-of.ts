// Everything that Postgres knows of what an event earned: conversions, ledger entries with their
// lines, commissions.
import type { Pool } from "pg";
import { transaction } from "../../infra/postgres/sql.ts";

export interface ConversionOf {
  readonly conversion_id: string;
  readonly version: number;
  readonly status: string;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  readonly event_id: string;
  readonly cause_event_id: string;
  readonly event_type: string;
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly segment: string | null;
  readonly occurred_at: number;
  readonly value_minor: bigint;
  readonly refunded_minor: bigint;
  readonly currency: string;
  readonly reason: string | null;
  readonly review: string | null;
  readonly method: string;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
}
export interface EntryOf {
  readonly entry_id: string;
  readonly kind: string;
  readonly conversion_id: string;
  readonly conversion_version: number;
  readonly partner_id: number;
  readonly amount_minor: bigint;
  readonly held_minor: bigint;
  readonly currency: string;
  readonly reason: string | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  readonly commission_type: string | null;
  readonly formula: string;
  /** The receipt: every number that the formula used. */
  readonly inputs: unknown;
  readonly year: number;
  readonly month: number;
  readonly occurred_at: number;
  readonly payable_from: number | null;
  readonly reverses_entry_id: string | null;
  readonly stored_at: number;
  readonly lines: readonly { readonly account: string; readonly amount_minor: string }[];
}
export interface CommissionOf {
  readonly commission_id: string;
  readonly conversion_id: string;
  readonly status: string;
  readonly amount_minor: bigint;
  readonly currency: string;
  readonly reason: string | null;
  readonly year: number;
  readonly month: number;
  readonly payable_from: number | null;
}
export interface MoneyOf {
  readonly conversions: readonly ConversionOf[];
  readonly entries: readonly EntryOf[];
  readonly commissions: readonly CommissionOf[];
  /** What settle remembers of the order, in its own encoding; null when it never met it. */
  readonly order: Buffer | null;
}

const conversionsOf = `
select conversion_id, version, status, partner_id, campaign_id, event_id, cause_event_id, event_type, order_id, product_id, segment, occurred_at,
  value_minor, refunded_minor, currency, reason, review, method, rule_id, rule_version
from conversions where client_id = $1 and (event_id = any ($2::uuid[]) or cause_event_id = any ($2::uuid[])) order by occurred_at, conversion_id`;
const entriesOf = `
select entry_id, kind, conversion_id, conversion_version, partner_id, amount_minor, held_minor, currency, reason, contract_id, contract_version,
  commission_type, formula, inputs, year, month, occurred_at, payable_from, reverses_entry_id, stored_at,
  coalesce((select jsonb_agg(jsonb_build_object('account', account, 'amount_minor', line.amount_minor::text) order by line.line)
    from ledger_lines as line where line.client_id = entry.client_id and line.entry_id = entry.entry_id), '[]') as lines
from ledger_entries as entry where conversion_id = any ($1) order by conversion_id, conversion_version, entry_id`;
const commissionsOf = `
select commission_id, conversion_id, status, amount_minor, currency, reason, year, month, payable_from
from commissions where client_id = $1 and conversion_id = any ($2) order by conversion_id`;
const orderOf = "select value from memory_state where stage = 'settle' and key = $1";

/**
 * Read at one moment. `eventIds`: the event and the one that it is a copy of; `orderKey` as in
 * processors/attribute/claims.ts.
 */
export const moneyOf = (
  pool: Pool,
  clientId: number,
  eventIds: readonly string[],
  orderKey: string,
): Promise<MoneyOf> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      const { rows: conversions } = await tx.query<ConversionOf>(conversionsOf, [clientId, eventIds]);
      const ids = conversions.map(({ conversion_id }) => conversion_id);
      const { rows: entries } = await tx.query<EntryOf>(entriesOf, [ids]);
      const { rows: commissions } = await tx.query<CommissionOf>(commissionsOf, [clientId, ids]);
      const { rows: remembered } = await tx.query<{ value: Buffer }>(orderOf, [`${clientId}:${orderKey}`]);
      return { conversions, entries, commissions, order: remembered[0]?.value ?? null };
    },
    { isReadOnly: true },
  );

/** Every client there is: for whoever knows an event's id and not whose it is. */
export const allClients = (pool: Pool): Promise<readonly number[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ client_id: number }>("select distinct client_id from clients order by 1")).rows.map(
        (row) => row.client_id,
      ),
    { role: "tributary_reference", isReadOnly: true },
  );
