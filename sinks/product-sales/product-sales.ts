// The sales and refunds among attributed events, attributed or not, for reports.
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded, Table, UnixMs } from "../../stream/flow.ts";

export interface SaleRow {
  readonly client_id: number;
  readonly event_id: string;
  readonly version: number;
  readonly t: string;
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly segment: string | null;
  readonly quantity: number | null;
  /** Digits of a 64-bit integer; null on a refund means all of it. */
  readonly value_minor: string | null;
  readonly currency: string | null;
  readonly occurred_at: UnixMs;
  readonly did: string;
  readonly credit_status: string;
  readonly credit_reason: string | null;
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  readonly fraud_band: string;
  readonly merged_into: string | null;
}

const saleTypes: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund"]);

/** One row for a purchase, ext_purchase or refund; none for any other event. */
export const saleRows = ({
  at,
  data: { event, fraud, credit, version, merged_into },
}: Recorded<EventAttributed>): readonly SaleRow[] =>
  saleTypes.has(event.t)
    ? [
        {
          client_id: event.client_id,
          event_id: event.event_id,
          version,
          t: event.t,
          order_id: event.order_id,
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
        },
      ]
    : [];

/** The newest version of an event wins. */
export const productSales: Table<SaleRow> = {
  name: "product_sales",
  store: "postgres",
  key: ["client_id", "event_id"],
  tenantOf: (row) => row.client_id,
  write: (rows, write) => write("product_sales", rows),
};
