// Stripe: `Stripe-Signature: t=,v1=` over `t.body`; amounts in minor units.
import { isSignatureOf } from "../../../domain/hmac.ts";
import { refuse } from "../refuse.ts";
import {
  currencyAt,
  decimalOf,
  fieldOf,
  idAt,
  isObject,
  minorAt,
  objectAt,
  optionalId,
  optionalObject,
  textAt,
} from "./fields.ts";
import {
  type Json,
  type Notice,
  type PaymentProvider,
  type PaymentSucceeded,
  type PaymentTakenBack,
  type SignedRequest,
  TOLERANCE_MS,
} from "./provider.ts";

/** Currencies whose minor units at Stripe differ from ISO 4217. */
const DECIMALS = { ISK: 2, MGA: 0, UGX: 2 };
const METADATA = "data.object.metadata";
const SECONDS = /^\d{1,12}$/;

/**
 * While a secret is being rotated, Stripe signs with the old and the new one. One valid v1 is
 * enough.
 */
const MOST_SIGNATURES = 5;
const isSigned = ({ body, header, receivedAt }: SignedRequest, secret: string | undefined, dummy: string): boolean => {
  const parts = (header("stripe-signature") ?? "").slice(0, 1_024).split(",");
  const valuesOf = (name: string) =>
    parts.flatMap((part) => (part.trim().startsWith(`${name}=`) ? [part.trim().slice(name.length + 1)] : []));
  const [time = ""] = valuesOf("t");
  const signed = Buffer.concat([Buffer.from(`${time}.`), body]);
  const given = [...valuesOf("v1").slice(0, MOST_SIGNATURES), ""];
  const isOne = given.filter((signature) => isSignatureOf(signed, signature, secret, dummy)).length > 0;
  return isOne && SECONDS.test(time) && Math.abs(receivedAt - Number(time) * 1_000) <= TOLERANCE_MS;
};

const read = (body: Json): Notice => {
  const notice = idAt(body, "id");
  const type = textAt(body, "type");
  const seconds = fieldOf(body, "created");
  if (!Number.isSafeInteger(seconds)) refuse("bad_field", "created", "must be Unix time in seconds");
  const at = (seconds as number) * 1_000;
  const found = READERS[type]?.(objectAt(body, "data.object"), body);
  return { notice, found: found === undefined || found === null ? [] : [{ ...found, at }] };
};

/** The time is added later: it is the time of the notice. */
type NoticeMove = Omit<PaymentSucceeded, "at"> | Omit<PaymentTakenBack, "at">;
type Reader = (object: Json, body: Json) => NoticeMove | null;

const paid = (amountAt: string, payment: string, body: Json): NoticeMove => ({
  kind: "succeeded",
  ...moneyOf(body, amountAt, payment),
});

const moneyOf = (body: Json, amountAt: string, payment: string, minor = minorAt(body, amountAt)) => {
  const currency = currencyAt(body, "data.object.currency");
  const amount = decimalOf(minor, currency, DECIMALS, amountAt);
  return { payment, amount, currency, metadata: optionalObject(body, METADATA), metadataAt: METADATA };
};

/** A charge and its payment intent are one payment, so the intent's id is used if there is one. */
const paymentOf = (body: Json): string =>
  optionalId(body, "data.object.payment_intent") ?? idAt(body, "data.object.id");

const session: Reader = ({ payment_status: status, mode }, body) =>
  status === "paid" && mode !== "setup" ? paid("data.object.amount_total", paymentOf(body), body) : null;

/**
 * Each notice states the total refunded so far. The refund is the difference to the previous total,
 * and the new total is part of its id, because Stripe may send one refund as two notices.
 */
const refunded: Reader = ({ id: charge }, body) => {
  const total = minorAt(body, "data.object.amount_refunded");
  const [newest] = listOf(fieldOf(body, "data.object.refunds.data"));
  const before = fieldOf(body, "data.previous_attributes.amount_refunded");
  const minor =
    before !== undefined
      ? total - minorAt(body, "data.previous_attributes.amount_refunded")
      : newest === undefined
        ? total
        : minorAt(newest, "amount");
  if (minor <= 0n) return null;
  const money = moneyOf(body, "data.object.amount_refunded", paymentOf(body), minor);
  return { kind: "refunded", refund: `${charge}:${total}`, reason: reasonOf(newest?.reason), ...money };
};

const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.filter(isObject) : []);

const reasonOf = (reason: unknown): PaymentTakenBack["reason"] => {
  if (reason === "duplicate") return "duplicate";
  if (reason === "fraudulent") return "fraud";
  return reason === "requested_by_customer" ? "order_canceled" : "other";
};

/** An inquiry is only a warning; no money has moved yet. */
const disputed: Reader = ({ status }, body) => {
  if (typeof status === "string" && status.startsWith("warning_")) return null;
  const payment = optionalId(body, "data.object.payment_intent") ?? idAt(body, "data.object.charge");
  const money = moneyOf(body, "data.object.amount", payment);
  return { kind: "disputed", refund: idAt(body, "data.object.id"), reason: "chargeback", ...money };
};

const READERS: Readonly<Record<string, Reader | undefined>> = Object.assign(Object.create(null), {
  "payment_intent.succeeded": (_object: Json, body: Json) =>
    paid("data.object.amount_received", idAt(body, "data.object.id"), body),
  "charge.succeeded": (_object: Json, body: Json) => paid("data.object.amount", paymentOf(body), body),
  "checkout.session.completed": session,
  "checkout.session.async_payment_succeeded": session,
  "charge.refunded": refunded,
  "charge.dispute.created": disputed,
});

export const stripe: PaymentProvider = { name: "stripe", isSigned, read };
