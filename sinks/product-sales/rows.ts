// A sale or a refund, attributed or not, as a row.
import { refundedEventOf } from "../../domain/refunds.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { SaleRow } from "./table.ts";

const saleTypes: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund"]);

/**
 * One row for a purchase, ext_purchase or refund; none for any other event. A sale without an order
 * goes by its event, and so does a refund of it.
 */
export const saleRows = ({
  at,
  data: { event, fraud, credit, version, merged_into, refunded_minor },
}: Recorded<EventAttributed>): readonly SaleRow[] =>
  saleTypes.has(event.t)
    ? [
        {
          client_id: event.client_id,
          event_id: event.event_id,
          version,
          t: event.t,
          order_id: event.order_id ?? refundedEventOf(event),
          product_id: event.product_id,
          segment: event.product_line,
          quantity: event.quantity,
          value_minor: event.value_minor === null ? null : event.value_minor.toString(),
          currency: event.currency,
          occurred_at: at,
          did: event.did,
          credit_status: credit.status,
          credit_reason: credit.reason,
          partner_id: credit.partner_id,
          campaign_id: credit.campaign_id,
          fraud_band: fraud.band,
          merged_into,
          refunded_minor: refunded_minor?.toString() ?? null,
        },
      ]
    : [];
