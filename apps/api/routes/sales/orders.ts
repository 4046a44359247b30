// The route of one order: its lines, copies, refunds, and what people decided about it.
import { toDecimal } from "../../../../domain/money.ts";
import { orderIdOf } from "../../../../domain/order-id.ts";
import { entityOf } from "../../../../modules/money/decisions/decide.ts";
import { type DecisionMade, decisionsAbout } from "../../../../modules/money/decisions/decisions-about.ts";
import { clientsWithOrder, type RowOfOrder, rowsOfOrder } from "../../../../modules/money/orders/order-details.ts";
import { orderOfRef, orderRef } from "../../../../modules/money/orders/order-ref.ts";
import { type SoldEvent, soldEvent, soldEventsOrNone } from "../../../../modules/money/orders/sold-events.ts";
import { readOrder } from "../../contract/sales/orders.ts";
import { fault, notFound } from "../../request/accept.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

const USUAL_CURRENCY = "MXN";

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(readOrder, async ({ read, params, query }) => {
    const { place, rows, decisions } = await read(async (tx, { clients }) => {
      const found = await placeOf({ params, query }, (orderId, of) => clientsWithOrder(tx, only(clients, of), orderId));
      const { client_id, order_id } = found;
      return {
        place: found,
        rows: await rowsOfOrder(tx, client_id, order_id),
        decisions: await decisionsAbout(tx, client_id, entityOf(client_id, order_id, "")),
      };
    });
    const events = await soldEventsOrNone(
      clickhouse,
      rows.map(({ event_id, occurred_at }) => ({ client_id: place.client_id, event_id, occurred_at })),
    );
    return orderReply(place, rows, decisions, events);
  }),
];

interface Place {
  readonly client_id: number;
  readonly order_id: string;
}
type FindClients = (orderId: string, of: number | undefined) => Promise<readonly number[]>;

const only = (clients: readonly number[], of: number | undefined): readonly number[] =>
  clients.filter((id) => of === undefined || id === of);

/**
 * A shop may call an order what looks like the id of a list: that of the list comes first. Throws
 * Problem 404 for an order that is not there, 400 where several clients have it.
 */
const placeOf = async (
  { params, query }: Pick<Ask<typeof readOrder>, "params" | "query">,
  clientsOf: FindClients,
): Promise<Place> => {
  const named = orderOfRef(params.id);
  if (named !== undefined && (query.client_id ?? named.client_id) === named.client_id) {
    const [client_id] = await clientsOf(named.order_id, named.client_id);
    if (client_id !== undefined) return { client_id, order_id: named.order_id };
  }
  const order_id = orderIdOf(params.id);
  const found = await clientsOf(order_id, query.client_id);
  if (found.length > 1) throw fault("/client_id", "client_id_required", "several clients have that order: name one");
  if (found[0] === undefined) throw notFound();
  return { client_id: found[0], order_id };
};

const orderReply = (
  { client_id, order_id }: Place,
  rows: readonly RowOfOrder[],
  decisions: readonly DecisionMade[],
  events: ReadonlyMap<string, SoldEvent>,
): Reply => {
  const eventOf = ({ event_id }: RowOfOrder) => soldEvent(events, { client_id, event_id });
  const isRefund = ({ t }: RowOfOrder): boolean => t === "refund";
  const sales = rows.filter((row) => !isRefund(row));
  const lines = sales.filter(({ merged_into }) => merged_into === null);
  const first = lines[0] ?? rows[0]!;
  const currency = first.currency ?? USUAL_CURRENCY;
  const others = [...new Set(lines.map((line) => line.currency ?? USUAL_CURRENCY))].filter((code) => code !== currency);
  return {
    body: {
      id: orderRef(client_id, order_id),
      client_id,
      order_id,
      placed_at: first.occurred_at,
      ...sumsIn(lines, currency),
      other_currencies: others.map((code) => sumsIn(lines, code)),
      lines: lines.map((line) => shownLine(line, eventOf(line))),
      copies: sales
        .filter(({ merged_into }) => merged_into !== null)
        .map((copy) => {
          const event = eventOf(copy);
          const { event_id, merged_into } = copy;
          return { event_id, source: event?.source ?? null, received_at: event?.received_at ?? null, merged_into };
        }),
      refunds: rows.filter(isRefund).map((refund) => shownRefund(refund, currency)),
      decisions,
      explain: lines.map(({ event_id }) => `/api/events/${event_id}/explain?client_id=${client_id}`),
    },
  };
};

const sumsIn = (lines: readonly RowOfOrder[], currency: string) => {
  const own = lines.filter((line) => (line.currency ?? USUAL_CURRENCY) === currency);
  const gross = own.reduce((sum, one) => sum + (one.value_minor ?? 0n), 0n);
  const refunded = own.reduce((sum, one) => sum + (one.refunded_minor ?? 0n), 0n);
  return {
    currency,
    gross: toDecimal(gross, currency),
    refunded: toDecimal(refunded, currency),
    net: toDecimal(gross - refunded, currency),
  };
};

/** `merged_into`: the refund that it is a copy of; it takes nothing. */
const shownRefund = ({ value_minor, currency: own, ...refund }: RowOfOrder, usual: string) => {
  const currency = own ?? usual;
  const { event_id, occurred_at, product_id, merged_into } = refund;
  const value = value_minor === null ? null : toDecimal(value_minor, currency);
  return { event_id, occurred_at, product_id, value, currency, merged_into };
};

const shownLine = (line: RowOfOrder, event: SoldEvent | undefined) => {
  const { commission_minor, commission_currency, commission_id, year, month } = line;
  const currency = line.currency ?? USUAL_CURRENCY;
  return {
    ...{ event_id: line.event_id, version: line.version, t: line.t, product_id: line.product_id },
    ...{ segment: line.segment, quantity: line.quantity, currency },
    ...{ partner_id: line.partner_id, campaign_id: line.campaign_id },
    value: toDecimal(line.value_minor ?? 0n, currency),
    refunded: toDecimal(line.refunded_minor ?? 0n, currency),
    status: line.credit_status === "attributed" ? "credited" : "unattributed",
    credit: {
      method: line.method ?? event?.credit_method ?? null,
      click_id: event?.click_id ?? null,
      reason: line.credit_reason,
      review: line.review,
    },
    commission:
      commission_minor === null || commission_currency === null
        ? null
        : {
            id: commission_id,
            amount: toDecimal(commission_minor, commission_currency),
            ...{ currency: commission_currency, status: line.status, payable_from: line.payable_from },
            period: `${year}-${String(month).padStart(2, "0")}`,
          },
    fraud: { band: line.fraud_band, score: event?.fraud_score ?? null },
  };
};
