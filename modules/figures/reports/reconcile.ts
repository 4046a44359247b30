// Compares a shop's own list of orders with the orders counted here. Lists the orders that only one
// side has, with the cause if it is known.
import type { Pool } from "pg";
import { isPlaceholder, spelling } from "../../../domain/ids.ts";
import { toDecimal } from "../../../domain/money.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, cond, readRows, scopeOf, text } from "../../../infra/clickhouse/query.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** An order in one currency; `amount` is null when the file has no amounts. */
export interface ShopOrder {
  readonly order_id: string;
  readonly currency: string;
  readonly amount: bigint | null;
  /** The line of the order in the file; the header is line 1. */
  readonly line: number;
}
export interface OurOrder {
  readonly order_id: string;
  readonly currency: string;
  readonly amount: bigint;
}
/** An event with the id of an order whose type is not one of the types that sell something. */
export interface OtherEvent {
  readonly order_id: string;
  readonly type: string;
}

interface Difference {
  readonly side: "only the shop" | "only here" | "both";
  readonly order_id: string;
  readonly currency: string;
  /** Decimal texts; null when the order is missing there, or the file has no amounts. */
  readonly shop: string | null;
  readonly here: string | null;
  readonly reason: string;
  readonly line: number | null;
}
export interface Reconciliation {
  readonly shop_orders: number;
  readonly our_orders: number;
  readonly same: number;
  readonly differences: readonly Difference[];
}

export interface ReconcileInput {
  readonly shop: readonly ShopOrder[];
  readonly ours: readonly OurOrder[];
  readonly others: readonly OtherEvent[];
  /** Records of all clients between the log and the tables; null when the log is unreachable. */
  readonly onTheWay: number | null;
}

const keyOf = ({ order_id, currency }: { readonly order_id: string; readonly currency: string }): string =>
  `${spelling(order_id)}\0${currency}`;
/** Normalises an id, so that two spellings of it compare equal. */
const looseOf = (id: string): string =>
  spelling(id)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, "");
const counted = new Intl.NumberFormat("en-US");

/** Merges rows of one order in one currency. */
const orders = <Order extends { order_id: string; currency: string; amount: bigint | null }>(
  rows: readonly Order[],
): ReadonlyMap<string, Order> => {
  const found = new Map<string, Order>();
  for (const row of rows) {
    const before = found.get(keyOf(row));
    const amount = before?.amount == null || row.amount === null ? row.amount : before.amount + row.amount;
    found.set(keyOf(row), { ...(before ?? row), amount });
  }
  return found;
};

/**
 * Pure. Returns the differences in the order of the file, then the orders found only here, by id.
 */
export const compareOrders = ({ shop, ours, others, onTheWay }: ReconcileInput): Reconciliation => {
  const [theirs, here] = [orders(shop), orders(ours)];
  const byLoose = new Map([...here.values()].map((one) => [looseOf(one.order_id), one]));
  const currencies = new Map<string, string[]>();
  for (const { order_id, currency } of here.values())
    currencies.set(spelling(order_id), [...(currencies.get(spelling(order_id)) ?? []), currency]);
  const otherTypes = new Map(others.map(({ order_id, type }) => [spelling(order_id), type]));
  const missing = (one: ShopOrder): string => {
    const id = spelling(one.order_id);
    const inCurrencies = currencies.get(id);
    const alike = byLoose.get(looseOf(id));
    const type = otherTypes.get(id);
    if (id === "") return "the row has no order id";
    if (isPlaceholder(id)) return `"${id}" is a placeholder: each of its sales is an order of its own here`;
    if (inCurrencies !== undefined) return `it is here in ${inCurrencies.join(", ")}`;
    if (alike !== undefined) return `spelled otherwise: here it is ${alike.order_id}`;
    if (type !== undefined) return `it came as ${type}, which is no sale: send it as purchase`;
    if (onTheWay === null) return "not stored; whether it is on its way is not known, the log does not answer";
    const never = "never received, or refused when it was sent (see the answer of its batch, and tributary dlq list)";
    return onTheWay === 0 ? never : `${never}, or one of the ${counted.format(onTheWay)} events on their way`;
  };
  const decimal = ({ amount, currency }: { amount: bigint | null; currency: string }): string | null =>
    amount === null ? null : toDecimal(amount, currency);
  const ofShop = [...theirs].flatMap(([key, one]): readonly Difference[] => {
    const own = here.get(key);
    const known = { order_id: one.order_id, currency: one.currency, shop: decimal(one), line: one.line };
    if (own === undefined) return [{ ...known, side: "only the shop", here: null, reason: missing(one) }];
    if (one.amount === null || one.amount === own.amount) return [];
    const more =
      own.amount > one.amount
        ? "more here: a line or tax that the file leaves out, or an amount that was sent otherwise"
        : "less here: a line that was not sent, or an amount that was sent otherwise";
    return [{ ...known, side: "both", here: decimal(own), reason: more }];
  });
  const looseInShop = new Set([...theirs.values()].map(({ order_id }) => looseOf(order_id)));
  const idsInShop = new Set([...theirs.values()].map(({ order_id }) => spelling(order_id)));
  const ofUs = [...here]
    .filter(([key]) => !theirs.has(key))
    .map(([, one]): Difference => {
      const id = spelling(one.order_id);
      const reason = idsInShop.has(id)
        ? "the shop has it in another currency"
        : looseInShop.has(looseOf(id))
          ? "spelled otherwise in the file"
          : "not in the file: a cancelled or a test order, or one of another day there";
      return {
        ...{ side: "only here", order_id: one.order_id, currency: one.currency },
        ...{ shop: null, here: decimal(one), reason, line: null },
      };
    })
    .sort((a, b) => (a.order_id < b.order_id ? -1 : 1));
  const differences = [...ofShop, ...ofUs];
  return {
    shop_orders: theirs.size,
    our_orders: here.size,
    same: theirs.size - ofShop.length,
    differences,
  };
};

export interface Span {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
}

/**
 * Returns counted orders: those of the span, and those with one of these ids at any time. Merged
 * copies are left out.
 */
export const ourOrders = (
  pool: Pool,
  clientId: number,
  ids: readonly string[],
  span: Span | undefined,
): Promise<readonly OurOrder[]> =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      const inSpan =
        span === undefined
          ? sql`true`
          : sql`(occurred_at >= ${new Date(span.from)} and occurred_at < ${new Date(span.to)})`;
      const { rows } = await tx.query<OurOrder>(sql`
        select order_id, coalesce(currency, 'MXN') as currency, sum(coalesce(value_minor, 0))::bigint as amount
        from product_sales
        where client_id = ${clientId} and t <> 'refund' and merged_into is null and order_id is not null
          and (${inSpan} or order_id = any (${ids}::text[]))
        group by 1, 2`);
      return rows;
    },
    { isReadOnly: true },
  );

/** Most ids in one query. */
const MOST_IDS = 1_000;

/**
 * Returns events that name one of these orders and sell nothing, e.g. because of a mistyped type.
 */
export const otherEvents = async (
  clickhouse: Clickhouse,
  clientId: number,
  ids: readonly string[],
): Promise<readonly OtherEvent[]> => {
  if (ids.length === 0) return [];
  const asked = ids.slice(0, MOST_IDS);
  const rows = await readRows(clickhouse, scopeOf(clientId), {
    from: "events_current",
    columns: {
      order_id: text("coalesce(order_id, JSONExtractString(props, 'order_id'))"),
      type: text("if(t = 'custom', coalesce(custom_name, t), t)"),
    },
    where: [
      cond`t not in ('purchase', 'ext_purchase', 'refund')`,
      cond`coalesce(order_id, JSONExtractString(props, 'order_id')) in ${bind("Array(String)", asked)}`,
    ],
    limit: 2 * MOST_IDS,
  });
  return rows.map(({ order_id, type }) => ({ order_id, type }));
};
