// Detects when two different events share one event id: a sale and its refund, two orders, or two
// amounts.

import { spelling } from "../../domain/ids.ts";
import { toDecimal } from "../../domain/money.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Claim, EventAttributed, EventReceived, TakenId } from "../../schemas/generated.ts";
import type { Conflict, Recorded, TakenIdRecorder } from "../../stream/flow.ts";
import { DEFAULT_CURRENCY } from "./order.ts";
import { namesCurrency } from "./props.ts";
import { inDigitsOf } from "./spread.ts";

const typeOf = ({ t, custom_name }: EventReceived): string => custom_name ?? t;
const moneyOf = ({ value_minor, currency }: EventReceived): string =>
  value_minor === null ? "no amount" : `${toDecimal(value_minor, currency ?? DEFAULT_CURRENCY)} ${currency}`;
const inWords = (event: EventReceived): string =>
  `a ${typeOf(event)} of order ${event.order_id ?? "none"}, ${moneyOf(event)}`;

/**
 * True if both amounts are equal. The stored row of a refund without a currency may have taken its
 * sale's currency, and its amount then has that currency's digits.
 */
const isSameMoney = (first: EventReceived, second: EventReceived): boolean => {
  if (first.currency === second.currency || first.value_minor === null || second.value_minor === null)
    return moneyOf(first) === moneyOf(second);
  const isRewritten = second.t === "refund" && !namesCurrency(second) && first.currency !== null;
  return isRewritten && first.value_minor === inDigitsOf(second.value_minor, first.currency!);
};

/** Events of before ids had one spelling keep the order id that was sent. */
const isSameOrder = ({ order_id: a }: EventReceived, { order_id: b }: EventReceived): boolean =>
  a === b || (a !== null && b !== null && spelling(a) === spelling(b));

/**
 * True if both refer to the same sale. The stored row of a refund that names an event may have
 * taken that event's order id.
 */
const isOfTheSame = (first: EventReceived, second: EventReceived): boolean => {
  const [one, other] = [first, second].map(refundedEventOf);
  return one === other && (isSameOrder(first, second) || (one !== null && second.order_id === null));
};

const isSame = (first: EventReceived, second: EventReceived): boolean =>
  typeOf(first) === typeOf(second) && isOfTheSame(first, second) && isSameMoney(first, second);

/**
 * What two events under one id are compared by, so that each of those that lost the id is known
 * from the others. The currency of a refund is as it was sent.
 */
export const comparedIn = (event: EventReceived): readonly string[] => [
  typeOf(event),
  event.order_id === null ? "" : spelling(event.order_id),
  refundedEventOf(event) ?? "",
  moneyOf(event),
];

/** `outputs` holds the recorded outputs for the id, including the row of its event. */
export const conflict = ({ id, data }: Recorded<Claim>, outputs: readonly Recorded<unknown>[]) => {
  if (data.decision !== null) return null;
  const rows = outputs.map((one) => one.data as Partial<EventAttributed>);
  const first = rows.find(({ event }) => event?.event_id === id)?.event;
  const { event } = data.attributed;
  if (first === undefined || isSame(first, event)) return null;
  const sent = event.sender_event_id ?? event.event_id;
  const message =
    `event id ${sent} is that of ${inWords(first)}; ` + `this is ${inWords(event)}: send it under an id of its own`;
  return { reason: "id_conflict", message } as const;
};

/** Records a claim whose id another order had, so that it comes second in a rebuild too. */
export const takenId: Omit<TakenIdRecorder<Claim>, "to"> = {
  record: ({ id, data }, conflict): TakenId => ({
    client_id: data.client_id,
    order_key: data.order_key,
    event_id: id,
    code: conflict?.reason ?? null,
    message: conflict?.message ?? null,
  }),
  read: ({ code, message }: TakenId): Conflict | null =>
    code === null ? null : { reason: code, message: message ?? code },
  awaits: {
    reason: "id_conflict",
    message:
      "another order was settled under this event id, and memory of it was lost: it is read again, and then the two " +
      "are compared",
  },
};
