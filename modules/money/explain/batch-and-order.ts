// Finds the events that belong to the id of an order or of a batch.
import type { Pool } from "pg";
import { spellingsOf } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, cond, count, readRows, scopeOf, text } from "../../../infra/clickhouse/query.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface EventOfOrder {
  readonly client_id: number;
  readonly event_id: string;
  readonly t: string;
  readonly at: UnixMs;
}

/** An order has a line a product; a screen shows at most this many. */
const MOST_EVENTS = 50;

/** Returns sales and refunds of that order at these clients, the oldest first, copies included. */
export const eventsOfOrder = (
  pool: Pool,
  clientIds: readonly number[],
  orderId: string,
): Promise<readonly EventOfOrder[]> =>
  transaction(
    pool,
    clientIds,
    async (tx) => {
      const { rows } = await tx.query<EventOfOrder>(sql`
        select client_id, event_id, t, occurred_at as at from product_sales
        where client_id = any (${clientIds}::int[]) and order_id = any (${spellingsOf(orderId)}::text[])
        order by client_id, occurred_at, event_id limit ${MOST_EVENTS}`);
      return rows;
    },
    { isReadOnly: true },
  );

/** Returns the ids of events that the batch was the first to bring; `tag` as in its id. */
export const eventsOfBatch = async (
  clickhouse: Clickhouse,
  clientId: number,
  tag: string,
): Promise<readonly { readonly event_id: string; readonly version: number }[]> =>
  readRows(clickhouse, scopeOf(clientId), {
    from: "receipts",
    columns: { event_id: text("event_id"), version: count("intDiv(fate, 8)") },
    where: [cond`batch = toFixedString(unhex(${bind("String", tag)}), 10)`],
    orderBy: ["event_id"],
    limit: MOST_EVENTS,
  });
