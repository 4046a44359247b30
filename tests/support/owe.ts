// A balance in the ledger for tests that need one without a pipeline: one balanced entry, and a
// conversion with its commission if one is named.
import type pg from "pg";
import { sql } from "../../infra/postgres/sql.ts";

interface Owed {
  readonly client: number;
  readonly partner: number;
  readonly payable: bigint;
  readonly held: bigint;
  readonly currency: string;
  /** The month of the booking; January 2026 by default. */
  readonly period?: { readonly year: number; readonly month: number };
  readonly segment?: string;
}
let entries = 0;

/** `owner` must be the owner of the tables. */
export const owe = async (
  owner: pg.Pool,
  { client, partner, payable, held, currency, ...more }: Owed,
): Promise<void> => {
  const { period = { year: 2026, month: 1 }, segment = null } = more;
  entries += 1;
  const id = `owed-${partner}-${entries}`;
  await owner.query(sql`
    with entry as (
      insert into ledger_entries (client_id, entry_id, kind, partner_id, conversion_id, change_id, conversion_version,
        event_type, currency, amount_minor, held_minor, formula, inputs, occurred_at, year, month, held, content_hash,
        segment)
      values (${client}, ${id}, 'earned', ${partner}, ${id}, ${id}, 1, 'purchase', ${currency}, ${payable + held},
        ${held}, 'given', '{}', now(), ${period.year}, ${period.month}, false, 'x', ${segment})
      returning client_id, entry_id)
    insert into ledger_lines (client_id, entry_id, line, account, currency, amount_minor)
    select client_id, entry_id, line, account, ${currency}::text, amount from entry, (values
      (1, 'expense:client', ${payable + held}::bigint), (2, 'payable:partner', ${-payable}::bigint),
      (3, 'held:partner', ${-held}::bigint)) as lines (line, account, amount)`);
};

interface Sold {
  readonly client: number;
  readonly partner: number;
  readonly at: Date;
  readonly segment: string | null;
  readonly event_type?: string;
  readonly commission: bigint;
}

/** A credited conversion with earnings in MXN. */
export const sell = async (owner: pg.Pool, sold: Sold): Promise<void> => {
  entries += 1;
  const { client, partner, at, segment, event_type = "purchase", commission } = sold;
  const id = `sold-${partner}-${entries}`;
  await owner.query(sql`
    insert into conversions (client_id, conversion_id, version, partner_id, event_id, cause_event_id, event_type,
      segment, customer, occurred_at, value_minor, refunded_minor, currency, status, method, content_hash)
    values (${client}, ${id}, 1, ${partner}, gen_random_uuid(), gen_random_uuid(), ${event_type}, ${segment}, 'x',
      ${at}, 10000, 0, 'MXN', 'credited', 'click', 'x')`);
  await owner.query(sql`
    insert into commissions (client_id, commission_id, conversion_id, version, partner_id, event_type, segment,
      amount_minor, currency, status, year, month, occurred_at, receipt)
    values (${client}, ${id}, ${id}, 1, ${partner}, ${event_type}, ${segment}, ${commission}, 'MXN', 'pending', 2026, 1,
      ${at}, '{}')`);
};
