// Each conversion as its newest record left it.
import type { Conversion } from "../../schemas/generated.ts";
import type { Recorded, Table, UnixMs } from "../../stream/flow.ts";
import { contentHash } from "../ledger/content-hash.ts";

export interface ConversionRow {
  readonly client_id: number;
  readonly conversion_id: string;
  readonly version: number;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  readonly event_id: string;
  readonly cause_event_id: string;
  readonly event_type: string;
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly segment: string | null;
  readonly quantity: number | null;
  readonly customer: string;
  readonly occurred_at: UnixMs;
  /** Digits of 64-bit integers, as in every row. */
  readonly value_minor: string;
  readonly refunded_minor: string;
  readonly currency: string;
  readonly status: "credited" | "reversed";
  readonly reason: string | null;
  readonly review: string | null;
  readonly method: string;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
  /** Hex. */
  readonly content_hash: string;
}

/** A line of which only a part was taken back stays credited. */
const statusOf = ({ kind, refunded_minor, line_value_minor }: Conversion): ConversionRow["status"] =>
  kind === "reversed" && refunded_minor >= line_value_minor ? "reversed" : "credited";

export const conversionRows = ({ data }: Recorded<Conversion>): readonly ConversionRow[] => [
  {
    client_id: data.client_id,
    conversion_id: data.conversion_id,
    version: data.version,
    partner_id: data.partner_id,
    campaign_id: data.campaign_id,
    event_id: data.event_id,
    cause_event_id: data.cause_event_id,
    event_type: data.event_type,
    order_id: data.order_id,
    product_id: data.product_id,
    segment: data.segment,
    quantity: data.quantity,
    customer: data.customer,
    occurred_at: data.occurred_at,
    value_minor: data.line_value_minor.toString(),
    refunded_minor: data.refunded_minor.toString(),
    currency: data.currency,
    status: statusOf(data),
    reason: data.reason,
    review: data.review,
    method: data.method,
    rule_id: data.rule_id,
    rule_version: data.rule_version,
    content_hash: contentHash(Object.values(data)),
  },
];

/**
 * The newest version of a conversion wins; another content under a version that is there is
 * refused.
 */
export const conversions: Table<ConversionRow> = {
  name: "conversions",
  store: "postgres",
  key: ["client_id", "conversion_id"],
  tenantOf: (row) => row.client_id,
  write: (rows, write) => write("conversions", rows),
};
