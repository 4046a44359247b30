// Lists everything that waits for its sale or for a person, over all orders that settle remembers.
import type { Pool } from "pg";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { isInParts, keysOfOrder, orderFrom } from "../../../processors/settle/memory.ts";
import type { OrderState } from "../../../processors/settle/order.ts";
import { type WaitingItem, waitingOf } from "../../../processors/settle/waiting-items.ts";

/** `order_key`: as in docs/design/money.md, "Ids and keys". */
export interface RememberedOrder {
  readonly client_id: number;
  readonly order_key: string;
  readonly state: OrderState;
}
export interface WaitingOfOrder extends WaitingItem, Omit<RememberedOrder, "state"> {}
export interface WaitingKind {
  readonly kind: WaitingItem["kind"];
  readonly count: number;
  /** The age of the oldest item; 0 if none waits. */
  readonly seconds: number;
}
interface Scan {
  readonly clientId?: number;
  readonly isClosing?: () => boolean;
  /** Starts behind this key, in the form of `keyOf`. */
  readonly after?: string;
}

export const keyOf = ({ client_id, order_key }: Pick<RememberedOrder, "client_id" | "order_key">): string =>
  `${client_id}:${order_key}`;

/** The number of orders that one statement reads, which takes about 50 ms. */
const ORDERS_AT_ONCE = 5_000;

/** Parts of large orders sort behind all orders, because keys of orders begin with a digit. */
const nextPage = `
select key, value from memory_state where stage = 'settle' and key > $1 and key not like 'part/%'
order by key limit ${ORDERS_AT_ONCE}`;
const partsOf = "select key, value from memory_state where stage = 'settle' and key = any ($1)";

/**
 * Signs of a review, refund or decision, or of parts that may contain some. Other texts of a row
 * may look alike.
 */
const signs = ['"review":"', '"refunds":[{', '"decisions":[{', '"parts":{'];
const mayWait = (value: Buffer): boolean => signs.some((sign) => value.includes(sign));

interface Row {
  readonly key: string;
  readonly value: Buffer;
}
const orderOf = async (pool: Pool, key: string, head: Buffer): Promise<OrderState> => {
  const values = new Map([[key, head]]);
  if (isInParts(head))
    for (const row of (await pool.query<Row>(partsOf, [keysOfOrder(key)])).rows)
      values.set(row.key, unpacked(row.value));
  return orderFrom(key, (one) => values.get(one))!;
};

/**
 * Orders with anything that may wait, sorted by key; of one client if it is named. Ends early if
 * `isClosing` returns true.
 */
export async function* unsettledOrders(
  pool: Pool,
  { clientId, isClosing = () => false, after: begin = "" }: Scan = {},
): AsyncGenerator<RememberedOrder> {
  let after = begin;
  while (!isClosing()) {
    const { rows } = await transaction(pool, null, (tx) => tx.query<Row>(nextPage, [after]), { isReadOnly: true });
    if (rows.length === 0) return;
    for (const { key, value: stored } of rows) {
      const client_id = Number(key.slice(0, key.indexOf(":")));
      if (clientId !== undefined && clientId !== client_id) continue;
      const value = unpacked(stored);
      if (!mayWait(value)) continue;
      yield { client_id, order_key: key.slice(key.indexOf(":") + 1), state: await orderOf(pool, key, value) };
    }
    after = rows.at(-1)!.key;
  }
}

/** Like unsettledOrders, but yields each waiting item separately. */
export async function* waitingOrders(pool: Pool, now: number, scan: Scan = {}): AsyncGenerator<WaitingOfOrder> {
  for await (const { state, ...of } of unsettledOrders(pool, scan))
    for (const one of waitingOf(state, now)) yield { ...of, ...one };
}

const KINDS = ["refund", "refund_twice", "decision", "held", "void"] as const;

export const countWaiting = async (
  pool: Pool,
  now: number,
  isClosing: () => boolean,
): Promise<readonly WaitingKind[]> => {
  const counts = new Map<WaitingItem["kind"], { count: number; oldest: number }>(
    KINDS.map((kind) => [kind, { count: 0, oldest: now }]),
  );
  for await (const { kind, since } of waitingOrders(pool, now, { isClosing })) {
    const one = counts.get(kind)!;
    one.count += 1;
    one.oldest = Math.min(one.oldest, since);
  }
  return [...counts].map(([kind, { count, oldest }]) => ({ kind, count, seconds: (now - oldest) / 1_000 }));
};
