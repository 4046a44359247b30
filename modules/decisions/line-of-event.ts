// The line that an event made or is a copy of, under the key by which settle remembers it: an order
// id, or what a lead, an install or a custom sale goes by.
import type { Pool } from "pg";
import { sentEventId } from "../../domain/ids.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { unpacked } from "../../infra/postgres/packed.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { orderKeyOf } from "../../processors/attribute/claims.ts";
import { orderFrom } from "../../processors/settle/memory/order.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type EventVersion, eventVersions } from "../../sinks/analytics/reads.ts";

export interface LineOfEvent {
  readonly order_key: string;
  /** The first copy, as far as it names the line. */
  readonly event: Pick<EventReceived, "event_id" | "t"> & Partial<EventReceived>;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const remembered = "select key, value from memory_state where stage = 'settle' and key = any ($1)";

/** Where refunds wait for an event that lies elsewhere there is a key without a line. */
const hasLine = (key: string, stored: Buffer): boolean =>
  orderFrom(key, (one) => (one === key ? unpacked(stored) : undefined))!.lines.length > 0;

const named = ({ event_id, t, custom_name, order_id, product_id, did, source, ...keys }: EventVersion) => ({
  ...{ event_id, t, custom_name, order_id, product_id, did, source },
  ...{ dedup_key: keys.dedup_key, lead_key: keys.lead_key, sale_hash: keys.sale_hash },
});

/**
 * By the sender's id or the log's own. Undefined: no such event is stored, or settle knows no line
 * of it, as of a page view.
 */
export const lineOfEvent = async (
  { clickhouse, pool }: { readonly clickhouse: Clickhouse; readonly pool: Pool },
  clientId: number,
  id: string,
): Promise<LineOfEvent | undefined> => {
  const scope = scopeOf(clientId);
  const newestOf = async (eventId: string) => (await eventVersions(clickhouse, scope, eventId))[0];
  const found = (await newestOf(sentEventId(clientId, id))) ?? (UUID.test(id) ? await newestOf(id) : undefined);
  const first = found?.merged_into == null ? found : await newestOf(found.merged_into);
  if (first === undefined) return undefined;
  const event = named(first);
  // A custom event that came before its order counted stands by itself, also beside that order.
  const orderKeys = [orderKeyOf(event as unknown as EventReceived), `e:${event.event_id}`];
  const { rows } = await transaction(
    pool,
    [clientId],
    (tx) => tx.query<{ key: string; value: Buffer }>(remembered, [orderKeys.map((key) => `${clientId}:${key}`)]),
    { isReadOnly: true },
  );
  const known = orderKeys.flatMap((order_key) => {
    const row = rows.find(({ key }) => key === `${clientId}:${order_key}`);
    return row === undefined ? [] : [{ ...row, order_key }];
  });
  const [own, alone] = known;
  const { order_key } = (alone !== undefined && hasLine(alone.key, alone.value) ? alone : own) ?? {};
  return order_key === undefined ? undefined : { order_key, event };
};
