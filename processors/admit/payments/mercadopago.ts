// Mercado Pago: `x-signature: ts=,v1=` over the id of what happened, the id of the request and the
// time. A notice names a payment alone, whose state is asked for; its amounts are decimals.
import { toDecimal } from "../../../domain/money.ts";
import { isSignatureOf } from "../../../domain/signature.ts";
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
/** Its documents say milliseconds; older notices have seconds. */
const msOf = (time: string): number => (time.length > 11 ? Number(time) : Number(time) * 1_000);

/** Its documents write the id in small letters, its libraries as it came: only an order has any. */
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
  // Else the signature of one payment would be good for the body of another one.
  const isSame = named !== "" && id.toLowerCase() === named.toLowerCase();
  return isOne && isSame && TIME.test(time) && Math.abs(receivedAt - msOf(time)) <= TOLERANCE_MS;
};

/** As the signature has it; "" where the body names nothing. */
const idIn = (body: Buffer): string => {
  try {
    const id = fieldOf(JSON.parse(body.toString("utf8")) as Json, "data.id");
    return typeof id === "string" || Number.isSafeInteger(id) ? String(id) : "";
  } catch {
    return "";
  }
};

const isPayment = (body: Json): boolean => fieldOf(body, "type") === "payment";

/** Of a notice that does not say the state of its payment. */
const lookUp = (body: Json): string | undefined => {
  const id = String(fieldOf(body, "data.id"));
  return isPayment(body) && fieldOf(body, "data.status") === undefined && PAYMENT.test(id)
    ? `https://api.mercadopago.com/v1/payments/${id}`
    : undefined;
};

/**
 * What the payment is by now: one with a refund of a part is approved still, so a later notice says
 * its purchase again, under the same id.
 */
const read = (body: Json): Notice => {
  const notice = idAt(body, "id");
  if (!isPayment(body)) return { notice, found: [] };
  const status = textAt(body, "data.status");
  if (status === "approved") return { notice, found: [paid(body), ...refundsIn(body)] };
  if (status === "refunded") return { notice, found: refundsIn(body) };
  // A case that the shop has won: the money is there again.
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
const at = (body: Json, path: string) => timeAt(body, fieldOf(body, path) == null ? "date_created" : path);

const paid = (body: Json): PaymentSucceeded => ({
  ...{ kind: "succeeded", at: at(body, "data.date_approved"), metadataAt: METADATA },
  ...moneyIn(body, totalOf(body)),
});

/** Each refund by its id; without the list of them, what is refunded by now is one. */
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
/** One that is refused, or under way, has moved no money. */
const isDone = (refund: unknown): boolean =>
  isObject(refund) && (refund.status === undefined || refund.status === null || refund.status === "approved");

/** All of it, where a payment that is refunded does not say how much. */
const refundedBy = (body: Json): bigint => {
  if (fieldOf(body, "data.transaction_amount_refunded") == null)
    return fieldOf(body, "data.status") === "refunded" ? totalOf(body) : 0n;
  return decimalAt(body, "data.transaction_amount_refunded", currencyAt(body, "data.currency_id"));
};

/** What was not refunded before. */
const disputed = (body: Json): PaymentTakenBack => {
  const rest = totalOf(body) - refundedBy(body);
  const money = moneyIn(body, rest > 0n ? rest : 0n);
  const refund = `${money.payment}:charged_back`;
  const when = at(body, "data.date_last_updated");
  return { kind: "disputed", reason: "chargeback", refund, at: when, metadataAt: METADATA, ...money };
};

export const mercadopago: PaymentProvider = { name: "mercadopago", isSigned, read, lookUp };
