// Finds the sales that a decision names, as an order or an event, among the caller's clients.
import { meetingId, spelling, spellingsOf } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { emptyOrder, type Line, type OrderState } from "../../../processors/settle/order.ts";
import { linesNamed } from "../../../processors/settle/spread.ts";
import { invalid, missing, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { linesOfEvents } from "../orders/line-of-event.ts";
import { rememberedOrders, versionOf } from "../orders/remembered-orders.ts";
import { heldRefundOf, linesOf, memoryKeyOf, type Subject } from "./decide.ts";

export interface Sale {
  readonly client_id: number;
  readonly subject: Subject;
  /** The lines concerned; empty for a sale that has not arrived yet. */
  readonly lines: readonly Line[];
  readonly order: Pick<OrderState, "refunds">;
  /** True if the event is a refund that is held; the lines are those that it would take from. */
  readonly isHeldRefund?: boolean;
}
/** undefined: the caller sees no such sale; several: more than one client has it. */
export type SaleMatch = Sale | "several" | undefined;

/** Exactly one of the ids must be given; a product belongs to the order. */
export interface SaleName {
  readonly event_id?: string | undefined;
  readonly order_id?: string | undefined;
  readonly product_id?: string | undefined;
}
export interface SaleNames {
  readonly named: readonly SaleName[];
  /** The client of the sales; undefined: any client of the caller. */
  readonly client_id?: number | undefined;
  /** The place of the n-th sale in the input, e.g. "/items/3". */
  readonly placeOf?: (n: number) => string;
  /** Also finds refunds that are held, which a decision ends. */
  readonly withHeldRefunds?: boolean;
}
export type SaleReader = Pick<Work, "tx" | "scope">;

/**
 * Returns the sales in the given order. Throws RefusalError: invalid `one_of` for a name with both
 * ids or none, `placeholder` for a product that names none.
 */
export const findSales = async (
  clickhouse: Clickhouse,
  { tx, scope }: SaleReader,
  { client_id: clientId, named, placeOf = () => "", withHeldRefunds = false }: SaleNames,
): Promise<readonly SaleMatch[]> => {
  for (const [n, { event_id, order_id, product_id }] of named.entries()) {
    if ((event_id === undefined) === (order_id === undefined))
      throw invalid(`${placeOf(n)}/order_id`, "one_of", "name an order, or an event of it: one of both");
    if (event_id !== undefined && product_id !== undefined)
      throw invalid(`${placeOf(n)}/product_id`, "one_of", "an event says by itself which line it is of");
    // It would name the whole order.
    if (product_id !== undefined && meetingId(product_id) === null)
      throw invalid(`${placeOf(n)}/product_id`, "placeholder", "names no product: name the line by its event");
  }
  const clients = scope.clients.filter((id) => clientId === undefined || id === clientId);
  const eventIds = named.flatMap(({ event_id }) => event_id ?? []);
  const kinds = { withRefunds: withHeldRefunds };
  const ofEvents = (await linesOfEvents({ clickhouse, tx }, clients, eventIds, kinds)).values();
  const meant = named.map(({ order_id, product_id }): readonly Pick<Sale, "client_id" | "subject">[] =>
    order_id === undefined
      ? ofEvents.next().value!.map(({ client_id, ...line }) => ({ client_id, subject: { line } }))
      : clients.flatMap((client_id) =>
          spellingsOf(order_id).map((one) => ({ client_id, subject: { order_id: one, product_id } })),
        ),
  );
  const orders = await rememberedOrders(tx, [...new Set(meant.flat().map(memoryKeyOf))]);
  return meant.map((some) => {
    const sales = new Map<number, Sale>();
    for (const one of some) {
      const order = orders.get(memoryKeyOf(one));
      if (order === undefined || sales.has(one.client_id)) continue;
      const held = withHeldRefunds ? heldRefundOf(one.subject, order) : undefined;
      const lines = held === undefined ? linesOf(one.subject, order.lines) : linesNamed(order.lines)(held);
      if (lines.length > 0) sales.set(one.client_id, { ...one, lines, order, ...(held && { isHeldRefund: true }) });
    }
    return sales.size > 1 ? "several" : sales.values().next().value;
  });
};

/** `what` names the thing that several clients have, e.g. "that order". */
export const severalClients = (what: string): RefusalError =>
  invalid("/client_id", "client_id_required", `several clients have ${what}: name one`);

/**
 * Throws RefusalError: missing, or invalid `client_id_required` if several clients have the sale.
 */
export const onlySale = (match: SaleMatch): Sale => {
  if (match === "several") throw severalClients("that");
  if (match === undefined) throw missing();
  return match;
};

/** The single sale that a decision concerns. */
export interface NamedSale extends SaleName {
  /** Required if several of the caller's clients have the order or event. */
  readonly client_id?: number | undefined;
  /** Allows an order that is unknown yet; the decision waits for its sale. */
  readonly isAwaited?: boolean | undefined;
  readonly withHeldRefunds?: boolean;
}

/** Throws RefusalError, see `findSales` and `onlySale`. */
export const saleNamed = async (clickhouse: Clickhouse, reader: SaleReader, name: NamedSale): Promise<Sale> => {
  const { withHeldRefunds = false } = name;
  const [match] = await findSales(clickhouse, reader, { client_id: name.client_id, named: [name], withHeldRefunds });
  const { client_id, order_id, isAwaited = false } = name;
  if (match !== undefined || !isAwaited || client_id === undefined || order_id === undefined) return onlySale(match);
  return { client_id, subject: { order_id: spelling(order_id) }, lines: [], order: emptyOrder };
};

/** A unique name for each line; two sales that share a name concern the same line. */
export const lineNames = (sale: Sale): readonly string[] =>
  sale.isHeldRefund && "line" in sale.subject
    ? [`${memoryKeyOf(sale)} refund ${sale.subject.line.event.event_id}`]
    : sale.lines.map(({ event_id }) => `${memoryKeyOf(sale)} ${event_id}`);

/** Null: the sale has no line yet. */
export const newestVersion = (lines: readonly Line[]): number | null =>
  lines.length === 0 ? null : Math.max(...lines.map(versionOf));
