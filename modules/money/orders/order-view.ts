// One order as the platform API answers it: its lines, copies, refunds, and the decisions of people
// about it.
import type { PoolClient } from "pg";
import { spellingsOf } from "../../../domain/ids.ts";
import { toDecimal } from "../../../domain/money.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { larger, smaller } from "../../../processors/commission/worth.ts";
import { missing } from "../../base/refusal.ts";
import type { ScopedRead } from "../../base/work.ts";
import { monthText } from "../../catalog/budgets/pace.ts";
import { entityOf } from "../decisions/decide.ts";
import { decisionsAbout } from "../decisions/decisions-about.ts";
import { severalClients } from "../decisions/find-sales.ts";
import { clientsWithOrder, type RowOfOrder, rowsOfOrder } from "./order-details.ts";
import { orderOfRef, orderRef } from "./order-ref.ts";
import { type SoldEvent, soldEvent, soldEventsOrNone } from "./sold-events.ts";

export interface OrderName {
  /** The id of a list (ord_...), or the shop's own. */
  readonly id: string;
  /** Undefined: any client of the caller. */
  readonly client_id?: number | undefined;
}
interface Place {
  readonly client_id: number;
  readonly order_id: string;
}

/** The currency of lines that came without one. */
const USUAL_CURRENCY = "MXN";

/**
 * Throws RefusalError: missing, or invalid `client_id_required` where several clients have that
 * order.
 */
export const orderView = async (clickhouse: Clickhouse, read: ScopedRead, name: OrderName) => {
  const { place, rows, decisions } = await read(async (tx, { clients }) => {
    const found = await placeOf(tx, clients, name);
    const { client_id, order_id } = found;
    return {
      place: found,
      rows: await rowsOfOrder(tx, client_id, order_id),
      decisions: await decisionsAbout(tx, client_id, entityOf(client_id, order_id, "")),
    };
  });
  const names = rows.map(({ event_id, occurred_at }) => ({ client_id: place.client_id, event_id, occurred_at }));
  return { ...shownOrder(place, rows, await soldEventsOrNone(clickhouse, names)), decisions };
};

/**
 * A shop may call an order what looks like the id of a list: the order of the list comes first.
 */
const placeOf = async (tx: PoolClient, clients: readonly number[], { id, client_id }: OrderName): Promise<Place> => {
  const clientsOf = (orderId: string, only: number | undefined) =>
    clientsWithOrder(
      tx,
      clients.filter((one) => only === undefined || one === only),
      orderId,
    );
  const named = orderOfRef(id);
  if (named !== undefined && (client_id ?? named.client_id) === named.client_id) {
    const [client] = await clientsOf(named.order_id, named.client_id);
    if (client !== undefined) return { client_id: client, order_id: named.order_id };
  }
  for (const order_id of spellingsOf(id)) {
    const found = await clientsOf(order_id, client_id);
    if (found.length > 1) throw severalClients("that order");
    if (found[0] !== undefined) return { client_id: found[0], order_id };
  }
  throw missing();
};

const shownOrder = (
  { client_id, order_id }: Place,
  rows: readonly RowOfOrder[],
  events: ReadonlyMap<string, SoldEvent>,
) => {
  const eventOf = ({ event_id }: RowOfOrder) => soldEvent(events, { client_id, event_id });
  const isRefund = ({ t }: RowOfOrder): boolean => t === "refund";
  const sales = rows.filter((row) => !isRefund(row));
  const lines = sales.filter(({ merged_into }) => merged_into === null);
  const copies = sales.filter(({ merged_into }) => merged_into !== null);
  const first = lines[0] ?? rows[0]!;
  const currency = first.currency ?? USUAL_CURRENCY;
  const others = [...new Set(lines.map((line) => line.currency ?? USUAL_CURRENCY))].filter((code) => code !== currency);
  return {
    id: orderRef(client_id, order_id),
    client_id,
    order_id,
    placed_at: first.occurred_at,
    ...sumsIn(lines, currency),
    other_currencies: others.map((code) => sumsIn(lines, code)),
    lines: lines.map((line) => shownLine(line, eventOf(line))),
    copies: copies.map((copy) => shownCopy(copy, eventOf(copy))),
    refunds: rows.filter(isRefund).map((refund) => shownRefund(refund, currency)),
    explain: lines.map(({ event_id }) => `/api/events/${event_id}/explain?client_id=${client_id}`),
  };
};

const sumsIn = (lines: readonly RowOfOrder[], currency: string) => {
  const own = lines.filter((line) => (line.currency ?? USUAL_CURRENCY) === currency);
  const names = [...new Set(own.map(nameOf))];
  const sums = names.map((name) => countedOnce(own.filter((line) => nameOf(line) === name)));
  const gross = sums.reduce((sum, one) => sum + one.gross, 0n);
  const refunded = sums.reduce((sum, one) => sum + one.refunded, 0n);
  return {
    currency,
    gross: toDecimal(gross, currency),
    refunded: toDecimal(refunded, currency),
    net: toDecimal(gross - refunded, currency),
    disputed_total: sums.some(({ isDisputed }) => isDisputed),
  };
};

/** A custom event has lines, and a total, of its own. */
const nameOf = ({ t }: RowOfOrder): string => (t === "ext_purchase" ? "purchase" : t);

/**
 * A total and lines of another worth count as the larger of both, as `tributary report` counts them
 * (docs/design/money.md, rule 28). What was given back of both is taken from it.
 */
const countedOnce = (lines: readonly RowOfOrder[]) => {
  const worth = (some: readonly RowOfOrder[]): bigint => some.reduce((sum, one) => sum + (one.value_minor ?? 0n), 0n);
  const totals = lines.filter(({ product_id }) => product_id === null);
  const isDisputed = totals.length > 0 && totals.length < lines.length;
  const back = lines.reduce((sum, one) => sum + (one.refunded_minor ?? 0n), 0n);
  if (!isDisputed) return { gross: worth(lines), refunded: back, isDisputed };
  const gross = larger(worth(totals), worth(lines) - worth(totals));
  return { gross, refunded: smaller(back, gross), isDisputed };
};

const shownCopy = ({ event_id, merged_into }: RowOfOrder, event: SoldEvent | undefined) => ({
  ...{ event_id, source: event?.source ?? null, received_at: event?.received_at ?? null, merged_into },
});

/** `merged_into`: the refund that it is a copy of; a copy gives nothing back. */
const shownRefund = ({ value_minor, currency: own, ...refund }: RowOfOrder, usual: string) => {
  const currency = own ?? usual;
  const { event_id, occurred_at, product_id, merged_into } = refund;
  const value = value_minor === null ? null : toDecimal(value_minor, currency);
  return { event_id, occurred_at, product_id, value, currency, merged_into };
};

const shownLine = (line: RowOfOrder, event: SoldEvent | undefined) => {
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
    commission: commissionOf(line),
    fraud: { band: line.fraud_band, score: event?.fraud_score ?? null },
  };
};

const commissionOf = ({ commission_id, commission_minor, commission_currency: currency, ...line }: RowOfOrder) =>
  commission_minor === null || currency === null
    ? null
    : {
        ...{ id: commission_id, amount: toDecimal(commission_minor, currency), currency },
        ...{ status: line.status, payable_from: line.payable_from },
        period: monthText({ year: line.year!, month: line.month! }),
      };
