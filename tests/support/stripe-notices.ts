// Notices as Stripe sends them (API 2024-06-20), signed by Stripe's own library.
import Stripe from "stripe";

export type StripeObject = Readonly<Record<string, unknown>>;
const { webhooks } = new Stripe("sk_test_never_sent");

/** The header that Stripe would send with these bytes. `at` is Unix time in milliseconds. */
export const stripeHeader = (payload: string, secret: string, at = Date.now()): string =>
  webhooks.generateTestHeaderString({ payload, secret, timestamp: Math.floor(at / 1_000) });

let made = 0;
/** An event of that type; `over` has the members beside `data.object`. */
export const stripeEvent = (type: string, object: StripeObject, over: StripeObject = {}): string => {
  made += 1;
  const { previous_attributes, ...rest } = over;
  return JSON.stringify({
    ...{ id: `evt_1PgafTB7WZ01zgkW${made}`, object: "event", api_version: "2024-06-20" },
    created: Math.floor(Date.now() / 1_000),
    data: { object, ...(previous_attributes !== undefined && { previous_attributes }) },
    ...{ livemode: false, pending_webhooks: 1, request: { id: "req_5vJgqhQjQ4bdsG", idempotency_key: null }, type },
    ...rest,
  });
};

export const paymentIntent = (over: StripeObject = {}): StripeObject => ({
  ...{ id: "pi_3PgafRB7WZ01zgkW1HR9I8Yt", object: "payment_intent", amount: 129900, amount_received: 129900 },
  ...{ capture_method: "automatic", created: 1721923917, currency: "mxn", customer: null },
  ...{ latest_charge: "ch_3PgafRB7WZ01zgkW1nWXLRGZ", livemode: false, status: "succeeded" },
  metadata: { order_id: "A-1001", product_id: "lamp", quantity: "1" },
  ...over,
});

export const charge = (over: StripeObject = {}): StripeObject => ({
  ...{ id: "ch_3PgafRB7WZ01zgkW1nWXLRGZ", object: "charge", amount: 129900, amount_captured: 129900 },
  ...{ amount_refunded: 0, currency: "mxn", captured: true, paid: true, disputed: false, refunded: false },
  ...{ payment_intent: "pi_3PgafRB7WZ01zgkW1HR9I8Yt", status: "succeeded" },
  metadata: { order_id: "A-1001", product_id: "lamp", quantity: "1" },
  ...over,
});

/** A dispute has its own metadata: Stripe does not copy any into it. */
export const dispute = (over: StripeObject = {}): StripeObject => ({
  ...{ id: "du_1PgafTB7WZ01zgkWf0hqVZ3J", object: "dispute", amount: 129900, currency: "mxn" },
  ...{ charge: "ch_3PgafRB7WZ01zgkW1nWXLRGZ", payment_intent: "pi_3PgafRB7WZ01zgkW1HR9I8Yt", metadata: {} },
  ...{ reason: "fraudulent", status: "needs_response" },
  ...over,
});

export const checkoutSession = (over: StripeObject = {}): StripeObject => ({
  ...{ id: "cs_test_a1Wm3bGqYl", object: "checkout.session", amount_total: 129900, amount_subtotal: 129900 },
  ...{ currency: "mxn", mode: "payment", payment_intent: "pi_3PgafRB7WZ01zgkW1HR9I8Yt", payment_status: "paid" },
  ...{ status: "complete", metadata: { order_id: "A-1001" } },
  ...over,
});
