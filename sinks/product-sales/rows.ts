// Turns a sale or a refund into a row, attributed or not.
import { UNNAMED_PRODUCT } from "../../domain/ids.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { creditOf } from "../shared-columns.ts";
import type { SaleRow } from "./table.ts";

const saleTypes: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund"]);

/**
 * One row for a purchase, ext_purchase or refund. None for any other event. A sale without an order
 * id is identified by its event, and so is its refund.
 */
export const saleRows = ({ at, data }: Recorded<EventAttributed>): readonly SaleRow[] => {
  const { event, version, refunded_minor } = data;
  if (!saleTypes.has(event.t)) return none;
  return [
    {
      client_id: event.client_id,
      event_id: event.event_id,
      version,
      t: event.t,
      order_id: event.order_id ?? refundedEventOf(event),
      product_id: productOf(event),
      segment: event.product_line,
      quantity: event.quantity,
      value_minor: event.value_minor?.toString() ?? null,
      currency: event.currency,
      occurred_at: at,
      did: event.did,
      ...creditOf(data),
      refunded_minor: refunded_minor?.toString() ?? null,
    },
  ];
};
/**
 * Only a sale that names no product is one of the whole order. So is a refund with a placeholder.
 */
const productOf = ({ t, product_id, warnings }: EventReceived): string | null =>
  t === "refund" || !warnings.includes("weak_product_id") ? product_id : (product_id ?? UNNAMED_PRODUCT);
const none: readonly SaleRow[] = [];
