// Moves refunds that name an event to the line of that event, under whichever key settle remembers
// it.
import type { Pool } from "pg";
import { refundedIdIn } from "../../../domain/refunds.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { rowOf } from "../../../processors/settle/order.ts";
import { moveClaims, strayRefunds } from "../../../processors/settle/refund-claim.ts";
import type { Claim } from "../../../schemas/generated.ts";
import { type LineOfEvent, lineOfEvent } from "./line-of-event.ts";
import { keyOf, unsettledOrders } from "./waiting-items.ts";

interface Moves {
  /** The order where the refund waits. */
  readonly key: string;
  /** Claims in the order of publishing; repeated, they have the same ids. */
  readonly claims: readonly Claim[];
}

const namedBy = ({ event_id, order_id = null }: LineOfEvent["event"]) => ({ event_id, order_id });

/**
 * Yields a move for each stray refund; without claims until its event is settled and stored.
 * `after`: starts behind this key.
 */
export async function* movesOfStrayRefunds(
  stores: { readonly clickhouse: Clickhouse; readonly pool: Pool },
  now: number,
  { after }: { readonly after: string },
): AsyncGenerator<Moves> {
  for await (const { state, ...from } of unsettledOrders(stores.pool, { after }))
    for (const refund of strayRefunds(state)) {
      const id = refundedIdIn(rowOf({ row: refund.row! }).event);
      const line = id === null ? undefined : await lineOfEvent(stores, from.client_id, id);
      const to = line && { order_key: line.order_key, ...namedBy(line.event) };
      yield { key: keyOf(from), claims: to === undefined ? [] : moveClaims(from, refund, to, now) };
    }
}
