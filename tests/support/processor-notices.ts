// Signed notices in the form that Mercado Pago and Adyen send, after the examples in their
// documentation.
import { createHmac, randomUUID } from "node:crypto";

export type Fields = Readonly<Record<string, unknown>>;

let notices = 0;

/** Mercado Pago sends no field of `data` beside its id; a forger may. */
export const mercadopagoNotice = (id: string | number, data: Fields = {}, over: Fields = {}): string => {
  notices += 1;
  return JSON.stringify({
    ...{ id: 112_233_445_566 + notices, live_mode: true, type: "payment", action: "payment.updated" },
    ...{ date_created: new Date().toISOString(), user_id: 987_654_321, api_version: "v1", ...over },
    data: { ...data, id: String(id) },
  });
};

/** Of GET /v1/payments/:id. */
export const mercadopagoPayment = (id: number, over: Fields = {}): Fields => ({
  ...{ id, status: "approved", status_detail: "accredited", currency_id: "MXN", transaction_amount: 1_299.5 },
  ...{ transaction_amount_refunded: 0, refunds: [], external_reference: "shop", live_mode: true },
  ...{ date_created: "2026-05-25T13:01:02.000-03:00", date_last_updated: "2026-05-26T10:00:00.000-03:00" },
  ...{ date_approved: "2026-05-25T13:01:08.000-03:00", payment_type_id: "credit_card", metadata: {} },
  ...over,
});

interface MercadopagoSigning {
  readonly at?: number;
  readonly requestId?: string;
}
export const mercadopagoHeaders = (
  id: string,
  secret: string,
  { at = Date.now(), requestId = randomUUID() }: MercadopagoSigning = {},
): Record<string, string> => {
  const manifest = `id:${id};request-id:${requestId};ts:${at};`;
  const v1 = createHmac("sha256", secret).update(manifest).digest("hex");
  return { "x-signature": `ts=${at},v1=${v1}`, "x-request-id": requestId };
};

/** Of the notices of Adyen, in the form in which it sends them: an hour ago. */
export const adyenTime = new Date(Date.now() - 3_600_000).toISOString().replace(/\.\d+Z$/, "+00:00");

/** One notification item of Adyen's, signed with `key` (64 hex digits). */
export const adyenNotice = (eventCode: string, over: Fields, key: string, metadata: Fields = {}): string => {
  const item: Record<string, any> = {
    ...{ amount: { currency: "EUR", value: 1_130 }, eventCode, eventDate: adyenTime },
    ...{ merchantAccountCode: "CasaVerde", merchantReference: "order-1", pspReference: "7914073381342284" },
    ...{ reason: "", success: "true", paymentMethod: "visa", ...over },
  };
  const { pspReference, originalReference = "", merchantAccountCode, merchantReference, amount, success } = item;
  const signed = [
    ...[pspReference, originalReference, merchantAccountCode, merchantReference],
    ...[amount.value, amount.currency, eventCode, success],
  ];
  const hmacSignature = createHmac("sha256", Buffer.from(key, "hex")).update(signed.join(":")).digest("base64");
  const named = Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`metadata.${name}`, value]));
  const NotificationRequestItem = { ...item, additionalData: { hmacSignature, ...named } };
  return JSON.stringify({ live: "true", notificationItems: [{ NotificationRequestItem }] });
};
