// The reason of a refund and the event that it refers to.
import type { EventReceived } from "../schemas/generated.ts";
import { EVENT_ID, sentEventId } from "./ids.ts";

/**
 * The fixed list of reasons. Admission refuses any other, and settle reads any other from the log
 * as `other`.
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

/**
 * The event id in `props.refunded_event_id`, as its sender wrote it. Null if the refund names no
 * event.
 */
export const refundedIdIn = ({ t, props }: Pick<EventReceived, "t" | "props">): string | null => {
  // This check avoids parsing the props of most events.
  if (t !== "refund" || !props.includes('"refunded_event_id"')) return null;
  const { refunded_event_id } = JSON.parse(props);
  return typeof refunded_event_id === "string" && EVENT_ID.test(refunded_event_id) ? refunded_event_id : null;
};

/** The refunded event's id in the log. */
export const refundedEventOf = (event: Pick<EventReceived, "client_id" | "t" | "props">): string | null => {
  const sent = refundedIdIn(event);
  return sent === null ? null : sentEventId(event.client_id, sent);
};
