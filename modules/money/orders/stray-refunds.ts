// Moves refunds that name an event to the line of that event, under whichever key settle remembers
// it, and refunds of an order that is remembered under the spelling of before.
import type { Pool } from "pg";
import { refundedIdIn } from "../../../domain/refunds.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { type OrderState, type Refund, rowOf } from "../../../processors/settle/order.ts";
import { moveClaims, moveToOrder, refundsOfBefore, strayRefunds } from "../../../processors/settle/refund-claim.ts";
import { namesLine } from "../../../processors/settle/spread.ts";
import type { Claim } from "../../../schemas/generated.ts";
import { type LineOfEvent, linesOfClient } from "./line-of-event.ts";
import { rememberedOrders } from "./remembered-orders.ts";
import { keyOf, type RememberedOrder, unsettledOrders } from "./waiting-items.ts";

interface Moves {
  /** The order where the refund waits. */
  readonly key: string;
  /** Claims in the order of publishing; repeated, they have the same ids. */
  readonly claims: readonly Claim[];
}

const namedBy = ({ event_id, order_id = null }: LineOfEvent["event"]) => ({ event_id, order_id });

interface Stray {
  readonly from: Omit<RememberedOrder, "state">;
  readonly refund: Refund;
  /** Where its order may be remembered since before. Null: it names an event. */
  readonly order_key: string | null;
}
interface Stores {
  readonly clickhouse: Clickhouse;
  readonly pool: Pool;
}

/**
 * The most that are looked up at once: one look-up may read the ids of all events of a client,
 * however few it asks for.
 */
const AT_ONCE = 500;
const readOnly = { isReadOnly: true } as const;

/**
 * Yields a move for each stray refund, and for each whose order is remembered under the spelling
 * that it had before; without claims until its event is settled and stored.
 * `after`: starts behind this key.
 */
export async function* movesOfStrayRefunds(
  stores: Stores,
  now: number,
  { after }: { readonly after: string },
): AsyncGenerator<Moves> {
  let strays: readonly Stray[] = [];
  for await (const order of unsettledOrders(stores.pool, { after })) {
    const others = strays.length > 0 && strays[0]!.from.client_id !== order.client_id;
    if (others || strays.length >= AT_ONCE) {
      yield* movesOf(stores, strays, now);
      strays = [];
    }
    strays = [...strays, ...straysOf(order)];
  }
  yield* movesOf(stores, strays, now);
}

const straysOf = ({ state, ...from }: RememberedOrder): readonly Stray[] => [
  ...strayRefunds(state).map((refund) => ({ from, refund, order_key: null })),
  ...refundsOfBefore(state, from.order_key).map((one) => ({ from, ...one })),
];

/** The strays are of one client. They are answered in their order, so that a turn can go on. */
async function* movesOf(stores: Stores, strays: readonly Stray[], now: number): AsyncGenerator<Moves> {
  if (strays.length === 0) return;
  const { client_id } = strays[0]!.from;
  const lineOf = await linesNamed(stores, client_id, strays);
  const orders = await ordersOfBefore(stores, client_id, strays);
  for (const { from, refund, order_key } of strays) {
    if (order_key === null) {
      const line = lineOf(refund);
      const to = line && { order_key: line.order_key, ...namedBy(line.event) };
      yield { key: keyOf(from), claims: to === undefined ? [] : moveClaims(from, refund, to, now) };
      continue;
    }
    const isMet = orders.get(keyOf({ client_id, order_key }))?.lines.some((line) => namesLine(refund, line)) === true;
    yield { key: keyOf(from), claims: isMet ? moveToOrder(from, refund, order_key, now) : [] };
  }
}

const linesNamed = async (stores: Stores, clientId: number, strays: readonly Stray[]) => {
  const idOf = (refund: Refund): string | null => refundedIdIn(rowOf({ row: refund.row! }).event);
  const named = [
    ...new Set(strays.flatMap(({ refund, order_key }) => (order_key === null ? idOf(refund) : null) ?? [])),
  ];
  const found = named.length === 0 ? [] : await linesOfClient(stores, clientId, named);
  const lines = new Map(named.map((id, n) => [id, found[n]]));
  return (refund: Refund): LineOfEvent | undefined => lines.get(idOf(refund) ?? "");
};

const ordersOfBefore = async (
  { pool }: Stores,
  client_id: number,
  strays: readonly Stray[],
): Promise<ReadonlyMap<string, OrderState>> => {
  const keys = strays.flatMap(({ order_key }) => (order_key === null ? [] : keyOf({ client_id, order_key })));
  return keys.length === 0
    ? new Map()
    : await transaction(pool, [client_id], (tx) => rememberedOrders(tx, [...new Set(keys)]), readOnly);
};
