// Conversion as a row: the columns that hold its fields. Do not edit: npm run generate.
import { bigint, int, nullable, text, time, uuid } from "../../infra/postgres/columns.ts";
import type { Conversion } from "../../schemas/generated.ts";

export const fieldColumns = {
  conversion_id: text,
  version: int,
  client_id: int,
  partner_id: int,
  campaign_id: nullable(int),
  event_id: uuid,
  cause_event_id: uuid,
  event_type: text,
  order_id: nullable(text),
  product_id: nullable(text),
  segment: nullable(text),
  quantity: nullable(int),
  customer: text,
  occurred_at: time,
  value_minor: bigint,
  refunded_minor: bigint,
  currency: text,
  reason: nullable(text),
  review: nullable(text),
  method: text,
  rule_id: nullable(int),
  rule_version: nullable(int),
};

/**
 * The row, with the values that the sink computes. A spread copy of an object with so many fields
 * would cost 2 us.
 */
export const rowOf = <Status, ContentHash>(
  data: Conversion,
  made: {
    readonly status: Status;
    readonly content_hash: ContentHash;
  },
) => ({
  conversion_id: data.conversion_id,
  version: data.version,
  client_id: data.client_id,
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
  reason: data.reason,
  review: data.review,
  method: data.method,
  rule_id: data.rule_id,
  rule_version: data.rule_version,
  status: made.status,
  content_hash: made.content_hash,
});

/**
 * The values that are hashed. Their order never changes. A newer field is included only if it
 * differs from its default.
 */
export const contentOf = (data: Conversion): readonly unknown[] => [
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
  ...(data.recalculates === true ? [] : [data.recalculates]),
  ...(data.hold_from === null ? [] : [data.hold_from]),
  ...(data.dated_by === null ? [] : [data.dated_by]),
  ...(data.dated_because === null ? [] : [data.dated_because]),
];
