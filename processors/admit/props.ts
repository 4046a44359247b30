// Reads the props that decide about money and matching from the free-form props.

import { EVENT_ID, isPlaceholder, meetingId, spelling } from "../../domain/ids.ts";
import { digitsOf, toMinor } from "../../domain/money.ts";
import { isRefundReason, REFUND_REASONS } from "../../domain/refunds.ts";
import type { EventType } from "./event-types.ts";
import { refuse } from "./refuse.ts";

export type Props = Readonly<Record<string, unknown>>;

export interface LiftedProps {
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly product_line: string | null;
  readonly quantity: number | null;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
}

const DEFAULT_CURRENCY = "MXN";
const MAX_ID = 256;
const MAX_QUANTITY = 1_000_000;
/**
 * Props that hold an amount on any known event type, in addition to the amount that is the event's
 * value.
 */
const AMOUNTS = ["price", "revenue", "cart_value", "lead_value"] as const;

/**
 * How to handle an invalid prop: `refuse` the event, or only warn if no money depends on the prop.
 */
type OnUnfit<Left> = (code: string, field: string, message: string) => Left;
const warned =
  (warnings: string[]): OnUnfit<null> =>
  (code) => {
    if (!warnings.includes(code)) warnings.push(code);
    return null;
  };

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === "";

/**
 * Reads the props of a known event type. A missing, mistyped or out-of-range prop refuses the
 * event, except money on a type that has no value (docs/design/contracts.md, "Batch"). `url` was
 * validated before.
 */
export const liftKnown = (
  type: EventType,
  props: Props,
  segments: ReadonlySet<string>,
  url: string | null,
  warnings: string[],
): LiftedProps => {
  const orderId = orderIdIn(idOf(props, "order_id") ?? undefined, warnings);
  for (const name of type.required) {
    const isMissing = name === "url" ? url === null : name === "order_id" ? orderId === null : isAbsent(props[name]);
    if (isMissing) refuse("missing_prop", `props.${name}`, `is required for this event type: send props.${name}`);
  }
  if (type.amount === "amount") checkRefund(props, orderId);
  const money = type.amount === null ? withoutMoney(props, warnings) : moneyOf(props, type.amount, warnings);
  return {
    order_id: orderId,
    product_id: productIn(idOf(props, "product_id"), warnings),
    product_line: segmentOf(props, segments, warnings),
    ...money,
  };
};

/** A refund must name what it takes back: an order or an event (docs/design/money.md, rule 12). */
const checkRefund = (props: Props, orderId: string | null): void => {
  const { refunded_event_id: eventId, reason } = props;
  if (!isAbsent(eventId) && !(typeof eventId === "string" && EVENT_ID.test(eventId)))
    refuse("bad_prop", "props.refunded_event_id", "must be the event_id of what is refunded, as it was sent");
  if (isAbsent(eventId) && orderId === null)
    refuse(
      "missing_prop",
      "props.order_id",
      "is required for this event type: send props.order_id, or what has no order (a lead, an install) by " +
        "props.refunded_event_id, the event_id of the event that is refunded",
    );
  if (!isAbsent(reason) && !isRefundReason(reason))
    refuse("bad_prop", "props.reason", `is not a refund reason: send one of ${REFUND_REASONS.join(", ")}`);
};

type Money = Pick<LiftedProps, "quantity" | "value_minor" | "currency">;

const moneyOf = (props: Props, amount: string, warnings: string[]): Money => {
  const currency = currencyOf(props, refuse);
  for (const name of AMOUNTS) if (name !== amount) amountOf(props, name, currency, null, refuse);
  const value = amountOf(props, amount, currency, warnings, refuse);
  return {
    quantity: quantityOf(props, refuse),
    value_minor: value,
    currency: value === null && isAbsent(props.currency) ? null : currency,
  };
};

/**
 * Types without a value accept any props. An invalid amount becomes null here and stays as a prop.
 */
const withoutMoney = (props: Props, warnings: string[]): Money => {
  const unfit = warned(warnings);
  const currency = currencyOf(props, unfit);
  for (const name of AMOUNTS) amountOf(props, name, currency ?? DEFAULT_CURRENCY, null, unfit);
  return {
    quantity: quantityOf(props, unfit),
    value_minor: null,
    currency: isAbsent(props.currency) ? null : currency,
  };
};

/**
 * Props of a custom event are the sender's own. Its amount is `revenue`, or else `value` if that is
 * a valid number. An invalid amount stays a prop, with a warning.
 */
export const liftCustom = (props: Props, segments: ReadonlySet<string>, warnings: string[]): LiftedProps => {
  const name = isAbsent(props.revenue) && typeof props.value === "number" && props.value >= 0 ? "value" : "revenue";
  const unfit = warned(warnings);
  const currency = isAbsent(props[name]) ? null : currencyOf(props, unfit);
  const value = currency === null ? null : amountOf(props, name, currency, warnings, unfit);
  return {
    order_id: orderIdIn(fittingId(props.order_id), warnings),
    product_id: productIn(fittingId(props.product_id), warnings),
    product_line: segmentOf(props, segments, warnings),
    quantity: quantityOf(props, unfit),
    value_minor: value,
    currency: value === null ? null : currency,
  };
};

/** Reads an id that is a non-empty text or a number. Anything else is undefined. */
export const fittingId = (value: unknown): string | undefined => {
  if (typeof value === "string") return value.length > 0 && value.length <= MAX_ID ? value : undefined;
  return Number.isSafeInteger(value) ? String(value) : undefined;
};

/** Treats an order id that consists only of spaces as absent. */
const orderIdIn = (given: string | undefined, warnings: string[]): string | null => {
  if (given === undefined) return null;
  const orderId = spelling(given);
  if (isPlaceholder(orderId)) warnings.push("weak_order_id");
  return orderId === "" ? null : orderId;
};

/** A placeholder counts as if no product was named. */
const productIn = (given: string | null | undefined, warnings: string[]): string | null => {
  const product = meetingId(given);
  if (product === null && given != null) warnings.push("weak_product_id");
  return product;
};

const idOf = (props: Props, name: string): string | null => {
  if (isAbsent(props[name])) return null;
  return (
    fittingId(props[name]) ??
    refuse("bad_prop", `props.${name}`, `must be a text of 1 to ${MAX_ID} characters or an integer`)
  );
};

const isQuantity = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_QUANTITY;

const quantityOf = <Left>(props: Props, unfit: OnUnfit<Left>): number | Left | null => {
  if (isAbsent(props.quantity)) return null;
  return isQuantity(props.quantity)
    ? props.quantity
    : unfit("bad_quantity", "props.quantity", `must be an integer from 1 to ${MAX_QUANTITY}`);
};

const currencyOf = <Left>(props: Props, unfit: OnUnfit<Left>): string | Left => {
  const given = props.currency;
  if (isAbsent(given)) return DEFAULT_CURRENCY;
  const code = typeof given === "string" && given.length === 3 ? given.toUpperCase() : "";
  return digitsOf(code) === undefined
    ? unfit("bad_currency", "props.currency", "is not an ISO 4217 currency: send a code like MXN")
    : code;
};

/** Without `warnings`, the amount is checked and no warning is added. */
const amountOf = <Left>(
  props: Props,
  name: string,
  currency: string,
  warnings: string[] | null,
  unfit: OnUnfit<Left>,
): bigint | Left | null => {
  const given = props[name];
  if (isAbsent(given)) return null;
  if (typeof given !== "number" && typeof given !== "string")
    return unfit("bad_amount", `props.${name}`, "must be a number or a numeric text like 1234.50");
  const amount = toMinor(given, currency);
  if (amount.kind === "bad_amount")
    return unfit("bad_amount", `props.${name}`, `${amount.why}: send an amount like 1234.50 in ${currency}`);
  if (amount.minor < 0n)
    return unfit("bad_amount", `props.${name}`, "is negative: send 0 or more, and refunds as events of type refund");
  if (amount.isRounded && warnings !== null) warnings.push("amount_rounded");
  return amount.minor;
};

const segmentOf = (props: Props, segments: ReadonlySet<string>, warnings: string[]): string | null => {
  const given = props.product_line;
  if (isAbsent(given)) return null;
  if (typeof given === "string" && segments.has(given)) return given;
  warnings.push("unknown_segment");
  return null;
};
