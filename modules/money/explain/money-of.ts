// Reads everything that Postgres has on an event's earnings: conversions, ledger entries with their
// lines, commissions.

import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { linesIn, type OrderState } from "../../../processors/settle/order.ts";
import type { StoredConversion } from "../../../sinks/conversions/table.ts";
import type { StoredCommission, StoredEntry } from "../../../sinks/ledger/table.ts";
import type { StoredSale } from "../../../sinks/product-sales/table.ts";
import { rememberedOrders } from "../orders/remembered-orders.ts";
import { inTime } from "./in-time.ts";

const conversionParts = [
  "conversion_id",
  "version",
  "status",
  "partner_id",
  "campaign_id",
  "event_id",
  "cause_event_id",
  "event_type",
  "order_id",
  "product_id",
  "segment",
  "occurred_at",
  "value_minor",
  "refunded_minor",
  "currency",
  "reason",
  "review",
  "method",
  "rule_id",
  "rule_version",
] as const;
const entryParts = [
  "entry_id",
  "kind",
  "change_id",
  "conversion_id",
  "conversion_version",
  "partner_id",
  "amount_minor",
  "held_minor",
  "currency",
  "reason",
  "contract_id",
  "contract_version",
  "commission_type",
  "formula",
  "inputs",
  "year",
  "month",
  "occurred_at",
  "payable_from",
  "reverses_entry_id",
  "stored_at",
] as const;
const commissionParts = [
  "commission_id",
  "conversion_id",
  "status",
  "amount_minor",
  "currency",
  "reason",
  "year",
  "month",
  "payable_from",
] as const;
export type ConversionOf = Pick<StoredConversion, (typeof conversionParts)[number]> & {
  /** The claim that closed it opened another one of the same line: nothing was given back. */
  readonly is_opened_again: boolean;
};
export type EntryOf = Pick<StoredEntry, (typeof entryParts)[number]> & {
  readonly lines: readonly { readonly account: string; readonly amount_minor: string }[];
};
export type CommissionOf = Pick<StoredCommission, (typeof commissionParts)[number]>;
export interface MoneyOf {
  readonly conversions: readonly ConversionOf[];
  readonly entries: readonly EntryOf[];
  readonly commissions: readonly CommissionOf[];
  /** The order as settle remembers it; null if settle never read it. */
  readonly order: OrderState | null;
  /** The key under which it is remembered, or would be. */
  readonly orderKey: string;
}

const conversionsOf = `
select ${conversionParts.join(", ")} from conversions
where client_id = $1 and (event_id = any ($2::uuid[]) or cause_event_id = any ($2::uuid[]))
order by occurred_at, conversion_id`;
const entriesOf = `
select ${entryParts.join(", ")},
  coalesce((select jsonb_agg(jsonb_build_object('account', account, 'amount_minor', line.amount_minor::text)
    order by line.line)
    from ledger_lines as line where line.client_id = entry.client_id and line.entry_id = entry.entry_id), '[]') as lines
from ledger_entries as entry where conversion_id = any ($1)
order by conversion_id, conversion_version, coalesce(reason, '') in ('order_line_left', 'first_sale_moved'), entry_id`;
const commissionsOf = `
select ${commissionParts.join(", ")} from commissions
where client_id = $1 and conversion_id = any ($2) order by conversion_id`;

/** The event and the order that are looked up (the keys as in processors/attribute/claims.ts). */
export interface MoneyQuestion {
  readonly clientId: number;
  /** The event, and the one that it is a copy of. */
  readonly eventIds: readonly string[];
  readonly orderKeys: readonly string[];
  /** A refund concerns lines that other events have made. */
  readonly isRefund: boolean;
}

/** Read in one snapshot. */
export const moneyOf = (pool: Pool, { clientId, eventIds, orderKeys, isRefund }: MoneyQuestion): Promise<MoneyOf> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      const keys = orderKeys.map((key) => `${clientId}:${key}`);
      const known = await rememberedOrders(tx, keys);
      const n = Math.max(
        0,
        keys.findIndex((key) => known.has(key)),
      );
      const order = known.get(keys[n]!) ?? null;
      const sales = isRefund ? (order?.lines ?? []).map(({ event_id }) => event_id) : [];
      const { rows: conversions } = await tx.query<Omit<ConversionOf, "is_opened_again">>(conversionsOf, [
        clientId,
        [...eventIds, ...sales],
      ]);
      const ids = conversions.map(({ conversion_id }) => conversion_id);
      const { rows: entries } = await tx.query<EntryOf>(entriesOf, [ids]);
      const { rows: commissions } = await tx.query<CommissionOf>(commissionsOf, [clientId, ids]);
      const inOrder = inTime(conversions, mostChangesIn(order));
      return { conversions: inOrder, entries, commissions, order, orderKey: orderKeys[n]! };
    },
    { isReadOnly: true },
  );

/** A claim changes a line at most twice, and there is room for its second copies. */
const CHANGES_OF_A_LINE = 2;
/** How many changes a claim of the order makes at most. */
export const mostChangesIn = (order: OrderState | null): number =>
  CHANGES_OF_A_LINE * ((order === null ? 0 : linesIn(order)) + 1);

/** Returns the given events that are stored as sales. */
export const salesCalled = (
  pool: Pool,
  clientIds: readonly number[],
  events: readonly { readonly client_id: number; readonly event_id: string }[],
): Promise<readonly Pick<StoredSale, "client_id" | "event_id" | "order_id">[]> =>
  transaction(
    pool,
    clientIds,
    async (tx) =>
      (
        await tx.query<Pick<StoredSale, "client_id" | "event_id" | "order_id">>(sql`
          select client_id, event_id, order_id from product_sales
          where (client_id, event_id) in (
            select * from unnest(${events.map(({ client_id }) => client_id)}::int[],
              ${events.map(({ event_id }) => event_id)}::uuid[]))
          order by client_id`)
      ).rows,
    { isReadOnly: true },
  );
