// Finds the orders in which rows of a file are words: settle remembers them there as a line, a
// copy, a refund, or a claim that may be withdrawn.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Line, OrderState } from "../../../processors/settle/order.ts";
import { newestOfEvents } from "../../../sinks/analytics/reads.ts";
import { keysOf, type LineOfEvent, named } from "../orders/line-of-event.ts";
import { rememberedOrders } from "../orders/remembered-orders.ts";

export interface RowInOrder extends Pick<LineOfEvent, "order_key" | "event"> {
  /** The line that the row made or is a copy of, if it has one. */
  readonly line: Line | undefined;
}

const isOf = ({ event_id, copied }: Line, id: string): boolean => event_id === id || copied.includes(id);
const isWordOf = ({ lines, refunds, words }: OrderState, id: string): boolean =>
  lines.some((line) => isOf(line, id)) ||
  refunds.some(({ event_id }) => event_id === id) ||
  words?.claims.some((text) => text.includes(`"event_id":"${id}"`)) === true;

/** By the id of their event; what is no word of an order is absent. */
export const rowsInOrders = async (
  { pool, clickhouse }: { readonly pool: Pool; readonly clickhouse: Clickhouse },
  clientId: number,
  ids: readonly string[],
): Promise<ReadonlyMap<string, RowInOrder>> => {
  if (ids.length === 0) return new Map();
  const events = new Map((await newestOfEvents(clickhouse, scopeOf(clientId), ids)).map((one) => [one.event_id, one]));
  const rows = [...events.values()].map((stored) => ({ event: named(stored), keys: keysOf(named(stored)) }));
  const keyOf = (order_key: string): string => `${clientId}:${order_key}`;
  const keys = [...new Set(rows.flatMap((row) => row.keys.map(keyOf)))];
  const read = { isReadOnly: true } as const;
  const orders = await transaction(pool, [clientId], (tx) => rememberedOrders(tx, keys), read);
  return new Map(
    rows.flatMap(({ event, keys: own }) => {
      const id = event.event_id;
      const order_key = own.find((key) => {
        const order = orders.get(keyOf(key));
        return order !== undefined && isWordOf(order, id);
      });
      if (order_key === undefined) return [];
      const line = orders.get(keyOf(order_key))!.lines.find((one) => isOf(one, id));
      return [[id, { order_key, event, line }] as const];
    }),
  );
};
