// The keeper's hourly look-up, on the memory and the log of this process: refunds that name an
// event are moved to its line.
import { sharedEventId } from "../../../domain/ids.ts";
import { orderKeyOf } from "../../../processors/attribute/claims.ts";
import { keysOfOrder, orderFrom } from "../../../processors/settle/memory.ts";
import { emptyOrder, type OrderState, type Refund } from "../../../processors/settle/order.ts";
import { moveClaims, strayRefunds } from "../../../processors/settle/refund-claim.ts";
import { byReceipt } from "../../../processors/settle/spread.ts";
import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import { topics } from "../../../topics.ts";

export const ordersIn =
  (durable: Memory) =>
  async (key: string): Promise<OrderState | undefined> => {
    const wanted = { stage: "settle", keys: keysOfOrder(key), eventIds: [], topic: topics.claims.name, partition: 0 };
    const { versions } = await durable.load(wanted);
    return orderFrom(key, (one) => versions.get(one)?.at(-1)?.value);
  };

export interface Logged {
  readonly durable: Memory;
  readonly claims: readonly Claim[];
  readonly rows: readonly EventAttributed[];
}
/**
 * The claims that move each stray refund of these clients, in the order in which the refunds came:
 * what one gives back may be the room of a cap for another order.
 */
export const lookedUp = async (
  { durable, claims, rows }: Logged,
  isOf: (clientId: number) => boolean,
  now: number,
): Promise<readonly (readonly Claim[])[]> => {
  const orderOf = ordersIn(durable);
  const newest = new Map<string, EventAttributed>();
  for (const row of rows)
    if (row.version > (newest.get(row.event.event_id)?.version ?? 0)) newest.set(row.event.event_id, row);
  // A refund names a page's event as the page did.
  for (const row of [...newest.values()])
    if (!newest.has(sharedEventId(row.event))) newest.set(sharedEventId(row.event), row);
  const keys = new Map(
    claims.flatMap((claim) =>
      claim.line_event_id !== null && isOf(claim.client_id) ? [[topics.claims.keyOf(claim), claim] as const] : [],
    ),
  );
  const moves: { readonly refund: Refund; readonly claims: readonly Claim[] }[] = [];
  for (const [key, from] of keys)
    for (const refund of strayRefunds((await orderOf(key)) ?? emptyOrder)) {
      const named = newest.get(refund.line_event_id!);
      // What a row of an undone file was a copy of says nothing of it any more.
      if (named?.credit.reason === "import_undone") continue;
      const event = named?.merged_into == null ? named?.event : newest.get(named.merged_into)?.event;
      if (
        event === undefined ||
        event.t === "refund" ||
        (await orderOf(`${from.client_id}:${orderKeyOf(event)}`)) === undefined
      )
        continue;
      moves.push({ refund, claims: moveClaims(from, refund, { ...event, order_key: orderKeyOf(event) }, now) });
    }
  return moves.sort((a, b) => byReceipt(a.refund, b.refund)).map((one) => one.claims);
};
