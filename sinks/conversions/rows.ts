// A change of a conversion as a row: the conversion as this record leaves it.
import type { Conversion } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contentHash } from "../content-hash.ts";
import type { ConversionRow } from "./table.ts";

/** A line of which only a part was taken back stays credited. */
const statusOf = ({ kind, refunded_minor, line_value_minor }: Conversion): ConversionRow["status"] =>
  kind === "reversed" && refunded_minor >= line_value_minor ? "reversed" : "credited";

/**
 * In this order for good. A conversion without a device, credited once, or calculated as always has
 * the hash that it had before conversions could say so.
 */
const contentOf = (data: Conversion): readonly unknown[] => [
  data.change_id,
  data.conversion_id,
  data.kind,
  data.version,
  data.client_id,
  data.partner_id,
  data.campaign_id,
  data.event_id,
  data.cause_event_id,
  data.event_type,
  data.order_id,
  data.product_id,
  data.segment,
  data.quantity,
  data.customer,
  data.occurred_at,
  data.value_minor,
  data.line_value_minor,
  data.refunded_minor,
  data.currency,
  data.reason,
  data.review,
  data.method,
  data.rule_id,
  data.rule_version,
  ...(data.device === null ? [] : [data.device]),
  ...(data.known_at === null ? [] : [data.known_at]),
  ...(data.recalculates ? [] : [data.recalculates]),
];

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
    content_hash: contentHash(contentOf(data)),
  },
];
