// What a refund says beside its amount: why, and of which event.
import type { EventReceived } from "../schemas/generated.ts";
import { EVENT_ID, sentEventId } from "./ids.ts";

/**
 * The closed list of reasons: admit refuses any other, settle takes any other that is in the log as
 * `other`.
 */
export const REFUND_REASONS = [
  "order_canceled",
  "item_returned",
  "payment_failed",
  "chargeback",
  "fraud",
  "terms_violation",
  "tracking_error",
  "duplicate",
  "other",
] as const;
const known: ReadonlySet<unknown> = new Set(REFUND_REASONS);

export const isRefundReason = (reason: unknown): reason is (typeof REFUND_REASONS)[number] => known.has(reason);

/** As its sender wrote it, in `props.refunded_event_id`; null: the refund names none. */
export const refundedIdIn = ({ t, props }: Pick<EventReceived, "t" | "props">): string | null => {
  // The props of most events are never parsed.
  if (t !== "refund" || !props.includes('"refunded_event_id"')) return null;
  const { refunded_event_id } = JSON.parse(props);
  return typeof refunded_event_id === "string" && EVENT_ID.test(refunded_event_id) ? refunded_event_id : null;
};

/** Its id in the log. */
export const refundedEventOf = (event: Pick<EventReceived, "client_id" | "t" | "props">): string | null => {
  const sent = refundedIdIn(event);
  return sent === null ? null : sentEventId(event.client_id, sent);
};
