// Reads the orders that settle remembers from its memory in Postgres.
import type { PoolClient } from "pg";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { isInParts, keysOfOrder, orderFrom } from "../../../processors/settle/memory.ts";
import { type Line, type OrderState, rowOf } from "../../../processors/settle/order.ts";

const valuesOf = async (tx: PoolClient, keys: readonly string[]): Promise<ReadonlyMap<string, Buffer>> => {
  const { rows } = await tx.query<{ key: string; value: Buffer }>(
    sql`select key, value from memory_state where stage = 'settle' and key = any (${keys})`,
  );
  return new Map(rows.map((row) => [row.key, unpacked(row.value)]));
};

/** Returns orders by key, e.g. `7:o:A-1001`; an order unknown to settle is absent. */
export const rememberedOrders = async (
  tx: PoolClient,
  keys: readonly string[],
): Promise<ReadonlyMap<string, OrderState>> => {
  const heads = await valuesOf(tx, keys);
  const large = [...heads].filter(([, head]) => isInParts(head)).map(([key]) => key);
  const parts = large.length === 0 ? new Map<string, Buffer>() : await valuesOf(tx, large.flatMap(keysOfOrder));
  const found = new Map<string, OrderState>();
  for (const key of heads.keys()) {
    const order = orderFrom(key, (one) => heads.get(one) ?? parts.get(one));
    if (order !== undefined) found.set(key, order);
  }
  return found;
};

/** The version of the row in which the line was last written. */
export const versionOf = (line: Line): number => rowOf(line).version;
