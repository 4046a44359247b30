// The form of a difference for programs, with amounts as decimals. The platform API stores and
// shows it bounded in size.
import { toDecimal } from "../../../../domain/money.ts";
import type { Change } from "../changes.ts";
import { closedMonthsOf, type Difference } from "../difference.ts";

const MOST_REASONS = 100;
const MOST_MONEY = 1_000;

/** A sample as programs see it. */
export const sampleOf = ({
  client_id,
  event_id,
  sender_event_id,
  t,
  order_id,
  value_minor,
  currency,
  ...change
}: Change) => {
  const code = currency ?? "MXN";
  return {
    ...{ client_id, event_id: sender_event_id ?? event_id, t, order_id, scope: change.scope },
    value: value_minor === null ? null : toDecimal(value_minor, code),
    currency: value_minor === null ? null : code,
    ...{ before: change.before, after: change.after, parts: change.parts },
  };
};

/** The moved money as programs see it. */
export const shownMoney = (money: Difference["money"]) =>
  money.map(({ commission_minor, ...one }) => ({ ...one, commission: toDecimal(commission_minor, one.currency) }));

export const summaryOf = (difference: Difference) => {
  const { changes, lines, events, byReason, conversions, money, samples } = difference;
  const rows = shownMoney(money);
  return {
    decisions: changes.length,
    about_sales: changes.filter(({ scope }) => scope === "line").length,
    ...{ lines, events, by_reason: byReason.slice(0, MOST_REASONS) },
    conversions: { ...conversions, moved: conversions.moved.slice(0, MOST_REASONS) },
    money: rows.slice(0, MOST_MONEY),
    further_money: Math.max(0, rows.length - MOST_MONEY),
    closed_months: closedMonthsOf(difference),
    samples: samples.map(sampleOf),
  };
};
