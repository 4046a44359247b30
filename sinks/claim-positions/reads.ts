// Finds the claims of the orders of a time, by the index.
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { bind, type ClientScope, cond, count, flag, readRows, unixMs } from "../../infra/clickhouse/query.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { ClaimPositionRow } from "./table.ts";

export type ClaimPlace = Pick<
  ClaimPositionRow,
  "client_id" | "order_hash" | "log_partition" | "log_offset" | "is_conversion" | "received_at"
>;

/**
 * The number of rows, copies that no merge has dropped yet included. It says nothing of a client,
 * so it needs no scope. The store answers without reading rows.
 */
export const indexSize = async (clickhouse: Clickhouse): Promise<number> => {
  const answer = await clickhouse.query({
    query: "select count() from claim_positions",
    format: "JSONCompactEachRow",
  });
  const [row] = await answer.json<readonly [string]>();
  return Number(row![0]);
};

/** Orders in one statement, about 30 kB of text. */
const ORDERS_AT_ONCE = 2_000;

/** The place of a claim in the log, which names it. One that was read twice may have two rows. */
const placeOf = ({ log_partition, log_offset }: ClaimPlace): string => `${log_partition} ${log_offset}`;

/** In the order of partitions and offsets, each once. */
export const inOrder = (found: readonly ClaimPlace[]): readonly ClaimPlace[] =>
  [...new Map(found.map((one) => [placeOf(one), one])).values()].sort(
    (a, b) => a.log_partition - b.log_partition || a.log_offset - b.log_offset,
  );

/** An order of a client, by its number. */
export interface NumberedOrder {
  readonly client_id: number;
  readonly order_hash: number;
}

/** The orders that have a conversion received from `from` on and before `to`. */
export const ordersReceived = (
  clickhouse: Clickhouse,
  scope: ClientScope,
  { from, to }: { readonly from: UnixMs; readonly to: UnixMs },
): Promise<readonly NumberedOrder[]> =>
  readRows(clickhouse, scope, {
    from: "claim_receipts",
    columns: { client_id: count("client_id"), order_hash: count("order_hash") },
    where: [
      cond`received_at >= fromUnixTimestamp64Milli(${bind("Int64", from)})
        and received_at < fromUnixTimestamp64Milli(${bind("Int64", to)})`,
    ],
    groupBy: ["client_id", "order_hash"],
  });

/** All claims of orders of one client. */
export const claimsOfOrders = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  orders: readonly NumberedOrder[],
): Promise<readonly ClaimPlace[]> => {
  const found: ClaimPlace[] = [];
  for (let n = 0; n < orders.length; n += ORDERS_AT_ONCE)
    found.push(
      ...(await readRows(clickhouse, scope, {
        from: "claim_positions",
        columns: {
          ...{ client_id: count("client_id"), order_hash: count("order_hash") },
          ...{ log_partition: count("log_partition"), log_offset: count("log_offset") },
          ...{ is_conversion: flag("is_conversion"), received_at: unixMs("received_at") },
        },
        where: [
          cond`order_hash in ${bind(
            "Array(UInt64)",
            orders.slice(n, n + ORDERS_AT_ONCE).map(({ order_hash }) => order_hash),
          )}`,
        ],
      })),
    );
  return found;
};
