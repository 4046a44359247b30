// The closed list of reasons of a refund: admit refuses any other, settle takes any other that is
// in the log as `other`.
export const REFUND_REASONS: ReadonlySet<unknown> = new Set([
  "order_canceled",
  "item_returned",
  "payment_failed",
  "chargeback",
  "fraud",
  "terms_violation",
  "tracking_error",
  "duplicate",
  "other",
]);
