// Adyen: each item of a standard webhook carries an HMAC over eight of its fields, made with the
// hex key of the webhook. Amounts are in minor units.
import { isSignatureOf } from "../../../domain/hmac.ts";
import { refuse } from "../refuse.ts";
import { currencyAt, decimalOf, fieldOf, idAt, isObject, minorAt, optionalObject, textAt, timeAt } from "./fields.ts";
import type { Json, Notice, PaymentProvider, PaymentSucceeded, PaymentTakenBack, SignedRequest } from "./provider.ts";

/** Currencies whose minor units at Adyen differ from ISO 4217. */
const DECIMALS = { CLP: 2, CVE: 0, IDR: 0, ISK: 2 };
const KEY = /^[0-9a-f]{64}$/i;
/** Adyen sends one item a notice, but its format allows a list. */
const MOST_ITEMS = 50;

/** The paths of the items. Empty if the body is not a notice. */
const itemsIn = (body: unknown): readonly string[] => {
  const listed = isObject(body) ? body.notificationItems : undefined;
  const items = Array.isArray(listed) && listed.length <= MOST_ITEMS ? listed : [];
  return items.map((_, n) => `notificationItems.${n}.NotificationRequestItem`);
};

const SIGNED = [
  ...["pspReference", "originalReference", "merchantAccountCode", "merchantReference"],
  ...["amount.value", "amount.currency", "eventCode", "success"],
];
const signedOf = (body: Json, item: string): Buffer =>
  Buffer.from(SIGNED.map((name) => String(fieldOf(body, `${item}.${name}`) ?? "")).join(":"));

/**
 * The fields are joined by colons, which nothing escapes. So only the shop's own reference may hold
 * one: with a second such field one signature would be good for two notices.
 */
const isUnambiguous = (body: Json, item: string): boolean =>
  SIGNED.every((name) => {
    const value = fieldOf(body, `${item}.${name}`) ?? "";
    return typeof value !== "object" && (name === "merchantReference" || !String(value).includes(":"));
  });

/**
 * Adyen's signature does not cover the time, so a repeated notice is accepted at any time; it gives
 * the same event.
 */
const isSigned = ({ body: raw }: SignedRequest, secret: string | undefined, dummy: string): boolean => {
  const key = secret !== undefined && KEY.test(secret) ? Buffer.from(secret, "hex") : undefined;
  const body = jsonIn(raw);
  const items = itemsIn(body);
  // A body without items still checks one signature, so that it takes the same time.
  const good = (items.length > 0 ? items : ["none"]).filter((item) => {
    const signature = fieldOf(body, `${item}.additionalData.hmacSignature`);
    const hex = Buffer.from(typeof signature === "string" ? signature : "", "base64").toString("hex");
    return isSignatureOf(signedOf(body, item), hex, key, dummy) && isUnambiguous(body, item);
  });
  return items.length > 0 && good.length === items.length;
};
const jsonIn = (raw: Buffer): Json => {
  try {
    const body: unknown = JSON.parse(raw.toString("utf8"));
    return isObject(body) ? body : {};
  } catch {
    return {};
  }
};

const read = (body: Json): Notice => {
  const items = itemsIn(body);
  if (items.length === 0) refuse("missing_field", "notificationItems", `must be a list of 1 to ${MOST_ITEMS}`);
  const nameOf = (item: string) =>
    ["pspReference", "eventCode", "success"].map((name) => fieldOf(body, `${item}.${name}`)).join(":");
  return { notice: items.map(nameOf).join(","), found: items.flatMap((item) => foundIn(body, item) ?? []) };
};

const foundIn = (body: Json, item: string): PaymentSucceeded | PaymentTakenBack | null => {
  const event = textAt(body, `${item}.eventCode`);
  // A failed attempt has moved no money.
  if (String(fieldOf(body, `${item}.success`)) !== "true") return null;
  if (event === "AUTHORISATION") return { kind: "succeeded", ...moneyOf(body, item, "pspReference") };
  if (event !== "REFUND" && event !== "CHARGEBACK") return null;
  const refund = idAt(body, `${item}.pspReference`);
  const money = moneyOf(body, item, "originalReference");
  return event === "REFUND"
    ? { kind: "refunded", refund, reason: "other", ...money }
    : { kind: "disputed", refund, reason: "chargeback", ...money };
};

const moneyOf = (body: Json, item: string, named: "pspReference" | "originalReference") => {
  const currency = currencyAt(body, `${item}.amount.currency`);
  const amountAt = `${item}.amount.value`;
  return {
    at: timeAt(body, `${item}.eventDate`),
    payment: idAt(body, `${item}.${named}`),
    amount: decimalOf(minorAt(body, amountAt), currency, DECIMALS, amountAt),
    currency,
    metadata: metadataIn(body, item),
    ...(named === "pspReference" && signedOrderIn(body, item)),
    metadataAt: `${item}.additionalData.metadata`,
  };
};

/** Adyen sends metadata as keys named metadata.<key>. */
const metadataIn = (body: Json, item: string): Json =>
  Object.fromEntries(
    Object.entries(optionalObject(body, `${item}.additionalData`))
      .filter(([key]) => key.startsWith("metadata."))
      .map(([key, value]) => [key.slice("metadata.".length), value]),
  );

/** The merchant reference of a payment is its order; that of a refund is not. */
const signedOrderIn = (body: Json, item: string): { readonly signedOrder?: string } => {
  const reference = fieldOf(body, `${item}.merchantReference`);
  return typeof reference === "string" && reference !== "" ? { signedOrder: reference } : {};
};

/** The time of a notice is not signed; the last of Adyen's own repetitions comes before this. */
const LONGEST_DELAY_MS = 7 * 86_400_000;

export const adyen: PaymentProvider = {
  ...{ name: "adyen", isSigned, read },
  ...{ hasUnsignedMetadata: true, longestDelayMs: LONGEST_DELAY_MS },
};
