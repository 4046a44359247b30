// Mercado Pago: `x-signature: ts=,v1=` covers the id of the object, the request id and the time, so
// the id is all that is believed: the payment itself is always fetched. Amounts are decimals.

import { isSignatureOf } from "../../../domain/hmac.ts";
import { toDecimal } from "../../../domain/money.ts";
import { refuse } from "../refuse.ts";
import { currencyAt, decimalAt, fieldOf, idAt, isObject, optionalObject, textAt, timeAt } from "./fields.ts";
import {
  type Json,
  type Notice,
  type PaymentProvider,
  type PaymentSucceeded,
  type PaymentTakenBack,
  type SignedRequest,
  TOLERANCE_MS,
} from "./provider.ts";

const METADATA = "data.metadata";
const PAYMENT = /^\d{1,20}$/;
const TIME = /^\d{1,14}$/;
/** Mercado Pago documents milliseconds, but older notices use seconds. */
const msOf = (time: string): number => (time.length > 11 ? Number(time) : Number(time) * 1_000);

/**
 * The documentation signs the id in lower case, the client libraries sign it unchanged. Both are
 * accepted; only order ids contain letters.
 */
const isSigned = (request: SignedRequest, secret: string | undefined, dummy: string): boolean => {
  const { body, header, query, receivedAt } = request;
  const parts = (header("x-signature") ?? "").slice(0, 1_024).split(",");
  const partOf = (name: string): string =>
    parts
      .find((part) => part.trim().startsWith(`${name}=`))
      ?.trim()
      .slice(name.length + 1) ?? "";
  const time = partOf("ts");
  const named = idIn(body);
  const id = query("data.id") ?? named;
  const requestId = header("x-request-id");
  const rest = `${requestId === undefined ? "" : `request-id:${requestId};`}ts:${time};`;
  const isOne =
    [id.toLowerCase(), id].filter((one) => isSignatureOf(Buffer.from(`id:${one};${rest}`), partOf("v1"), secret, dummy))
      .length > 0;
  // Otherwise the signature of one payment would be valid for the body of another payment.
  const isSame = named !== "" && id.toLowerCase() === named.toLowerCase();
  return isOne && isSame && TIME.test(time) && Math.abs(receivedAt - msOf(time)) <= TOLERANCE_MS;
};

/** The id that the signature covers, or "" if the body names none. */
const idIn = (body: Buffer): string => {
  try {
    const id = fieldOf(JSON.parse(body.toString("utf8")) as Json, "data.id");
    return typeof id === "string" || Number.isSafeInteger(id) ? String(id) : "";
  } catch {
    return "";
  }
};

const isPayment = (body: Json): boolean => fieldOf(body, "type") === "payment";

const hasPaymentId = (body: Json): boolean => PAYMENT.test(String(fieldOf(body, "data.id")));

/**
 * The path of the payment, whatever the notice says about it: its signature does not cover amount,
 * state or metadata.
 */
const lookUp = (body: Json): string | undefined =>
  isPayment(body) && hasPaymentId(body) ? `/v1/payments/${fieldOf(body, "data.id")}` : undefined;

/**
 * The id of a notice is not signed, so it names the payment too: a signature that is good for one
 * payment marks no notice of another as known.
 */
const noticeOf = (body: Json): string => {
  const id = idAt(body, "id");
  return isPayment(body) && hasPaymentId(body) ? `${fieldOf(body, "data.id")}:${id}` : id;
};

/**
 * Reads the current state of the payment. A partly refunded payment still counts as approved, so a
 * later notice reports its purchase again under the same id.
 */
const read = (body: Json): Notice => {
  const notice = noticeOf(body);
  if (!isPayment(body)) return { notice, found: [] };
  // Such a payment was not looked up, so its data are the sender's own.
  if (!hasPaymentId(body)) refuse("bad_field", "data.id", "must be the number of a payment");
  const status = textAt(body, "data.status");
  if (status === "approved") return { notice, found: [paid(body), ...refundsIn(body)] };
  if (status === "refunded") return { notice, found: refundsIn(body) };
  // The shop has won this dispute, so it has its money back.
  const isWon = fieldOf(body, "data.status_detail") === "reimbursed";
  if (status === "charged_back" && !isWon) return { notice, found: [...refundsIn(body), disputed(body)] };
  return { notice, found: [] };
};

const moneyIn = (body: Json, minor: bigint) => {
  const currency = currencyAt(body, "data.currency_id");
  const amount = toDecimal(minor, currency);
  return { payment: idAt(body, "data.id"), amount, currency, metadata: optionalObject(body, METADATA) };
};
const totalOf = (body: Json): bigint =>
  decimalAt(body, "data.transaction_amount", currencyAt(body, "data.currency_id"));
const at = (body: Json, path: string) => timeAt(body, fieldOf(body, path) == null ? "data.date_created" : path);

const paid = (body: Json): PaymentSucceeded => ({
  ...{ kind: "succeeded", at: at(body, "data.date_approved"), metadataAt: METADATA },
  ...moneyIn(body, totalOf(body)),
});

/** Each refund by its own id. Without the list, everything refunded so far counts as one refund. */
const refundsIn = (body: Json): readonly PaymentTakenBack[] => {
  const listed = fieldOf(body, "data.refunds");
  const of = { kind: "refunded", reason: "other", metadataAt: METADATA } as const;
  if (Array.isArray(listed) && listed.length > 0)
    return listed.flatMap((one, n) => {
      if (!isDone(one)) return [];
      const place = `data.refunds.${n}`;
      const minor = decimalAt(body, `${place}.amount`, currencyAt(body, "data.currency_id"));
      const refund = idAt(body, `${place}.id`);
      return [{ ...of, at: at(body, `${place}.date_created`), refund, ...moneyIn(body, minor) }];
    });
  const minor = refundedBy(body);
  if (minor === 0n) return [];
  const money = moneyIn(body, minor);
  return [{ ...of, at: at(body, "data.date_last_updated"), refund: `${money.payment}:${minor}`, ...money }];
};
/** A refund that is rejected or still pending has moved no money. */
const isDone = (refund: unknown): boolean =>
  isObject(refund) && (refund.status === undefined || refund.status === null || refund.status === "approved");

/**
 * The amount refunded so far. If a refunded payment does not state it, the whole payment counts as
 * refunded.
 */
const refundedBy = (body: Json): bigint => {
  if (fieldOf(body, "data.transaction_amount_refunded") == null)
    return fieldOf(body, "data.status") === "refunded" ? totalOf(body) : 0n;
  return decimalAt(body, "data.transaction_amount_refunded", currencyAt(body, "data.currency_id"));
};

/** A dispute takes what was not refunded before. */
const disputed = (body: Json): PaymentTakenBack => {
  const rest = totalOf(body) - refundedBy(body);
  const money = moneyIn(body, rest > 0n ? rest : 0n);
  const refund = `${money.payment}:charged_back`;
  const when = at(body, "data.date_last_updated");
  return { kind: "disputed", reason: "chargeback", refund, at: when, metadataAt: METADATA, ...money };
};

export const mercadopago: PaymentProvider = { name: "mercadopago", isSigned, read, lookUp };
