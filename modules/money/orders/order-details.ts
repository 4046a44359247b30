// Reads one order from Postgres: its sales and refunds, who is credited with each line, and what
// that earns.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { type Line, rowOf } from "../../../processors/settle/order.ts";
import type { StoredConversion } from "../../../sinks/conversions/table.ts";
import type { StoredCommission } from "../../../sinks/ledger/table.ts";
import type { StoredSale } from "../../../sinks/product-sales/table.ts";
import { memoryKeyOf } from "../decisions/decide.ts";
import { rememberedOrders } from "./remembered-orders.ts";

type Sale = Pick<
  StoredSale,
  | "event_id"
  | "version"
  | "t"
  | "product_id"
  | "segment"
  | "quantity"
  | "value_minor"
  | "currency"
  | "occurred_at"
  | "credit_status"
  | "credit_reason"
  | "partner_id"
  | "campaign_id"
  | "fraud_band"
  | "merged_into"
  | "refunded_minor"
>;
type Commission = Pick<StoredCommission, "commission_id" | "status" | "year" | "month" | "payable_from">;
type EarnedRow = { readonly [Name in keyof Commission]: Commission[Name] | null } & {
  readonly method: StoredConversion["method"] | null;
  readonly review: string | null;
  readonly commission_minor: bigint | null;
  readonly commission_currency: string | null;
};
/**
 * A line, a second copy of a line or refund (`merged_into`), or a refund, with the earnings of its
 * line.
 */
export interface RowOfOrder extends Sale, EarnedRow {}

/** The given clients that have an order with this id. */
export const clientsWithOrder = async (
  tx: PoolClient,
  clients: readonly number[],
  orderId: string,
): Promise<readonly number[]> => {
  const { rows } = await tx.query<{ client_id: number }>(sql`
    select distinct client_id from product_sales where order_id = ${orderId} and client_id = any (${clients}::int[])`);
  const sold = rows.map(({ client_id }) => client_id);
  const others = clients.filter((id) => !sold.includes(id));
  const orders = await rememberedOrders(
    tx,
    others.map((id) => keyOf(id, orderId)),
  );
  const custom = others.filter((id) => (orders.get(keyOf(id, orderId))?.lines.length ?? 0) > 0);
  return [...sold, ...custom].sort((a, b) => a - b);
};

const keyOf = (client_id: number, order_id: string): string => memoryKeyOf({ client_id, subject: { order_id } });

/**
 * Every sale and refund of the order, oldest first. Custom sales are left out, because only settle
 * knows them.
 */
export const rowsOfOrder = async (
  tx: PoolClient,
  clientId: number,
  orderId: string,
): Promise<readonly RowOfOrder[]> => {
  const { rows: sales } = await tx.query<Sale>(sql`
    select event_id, version, t, product_id, segment, quantity, value_minor, currency, occurred_at, credit_status,
      credit_reason, partner_id, campaign_id, fraud_band, merged_into, refunded_minor
    from product_sales where client_id = ${clientId} and order_id = ${orderId}`);
  const stored = new Set(sales.map(({ event_id }) => event_id));
  const key = keyOf(clientId, orderId);
  const lines = (await rememberedOrders(tx, [key])).get(key)?.lines ?? [];
  const rows = [...sales, ...lines.filter(({ event_id }) => !stored.has(event_id)).map(saleOf)];
  const earned = await earnedBy(tx, clientId, rows);
  return rows
    .map((row) => ({ ...row, ...(earned.get(`${row.event_id} ${row.partner_id}`) ?? nothing) }))
    .sort((a, b) => a.occurred_at - b.occurred_at || (textOf(a) < textOf(b) ? -1 : 1));
};

const textOf = ({ product_id, event_id }: Sale): string => `${product_id ?? ""}\n${event_id}`;

const saleOf = (line: Line): Sale => {
  const { event, credit, fraud, version } = rowOf(line);
  const { event_id, partner_id, campaign_id, value_minor, refunded_minor, currency } = line;
  const { product_id, product_line: segment, quantity } = event;
  return {
    ...{ event_id, version, t: event.custom_name ?? event.t, product_id, segment, quantity, value_minor, currency },
    ...{ occurred_at: line.at, credit_status: credit.status, credit_reason: credit.reason, partner_id, campaign_id },
    ...{ fraud_band: fraud.band, merged_into: null, refunded_minor },
  };
};

const nothing: EarnedRow = {
  ...{ method: null, review: null, commission_id: null, commission_minor: null, commission_currency: null },
  ...{ status: null, year: null, month: null, payable_from: null },
};

/**
 * Earnings by event and partner. A line that returned to a partner has a conversion for each time;
 * the credited one counts.
 */
const earnedBy = async (
  tx: PoolClient,
  clientId: number,
  sales: readonly Sale[],
): Promise<ReadonlyMap<string, EarnedRow>> => {
  const { rows } = await tx.query<EarnedRow & Pick<StoredConversion, "event_id" | "partner_id">>(sql`
    select c.event_id, c.partner_id, c.method, c.review, m.commission_id, m.amount_minor as commission_minor,
      m.currency as commission_currency, m.status, m.year, m.month, m.payable_from
    from conversions c
    left join commissions m on m.client_id = c.client_id and m.conversion_id = c.conversion_id
    where c.client_id = ${clientId} and c.event_id = any (${sales.map(({ event_id }) => event_id)}::uuid[])
    order by c.status = 'credited', m.year, m.month, c.conversion_id`);
  return new Map(rows.map(({ event_id, partner_id, ...earned }) => [`${event_id} ${partner_id}`, earned]));
};
