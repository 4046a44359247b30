// The form of a difference that the platform API stores and shows: bounded in size, with amounts as
// decimals.
import { toDecimal } from "../../../../domain/money.ts";
import type { Change } from "../changes.ts";
import { closedMonthsOf, type Difference } from "../difference.ts";

const MOST_REASONS = 100;
const MOST_MONEY = 1_000;

const sampleOf = ({ client_id, event_id, sender_event_id, t, order_id, value_minor, currency, ...change }: Change) => {
  const code = currency ?? "MXN";
  return {
    ...{ client_id, event_id: sender_event_id ?? event_id, t, order_id, scope: change.scope },
    value: value_minor === null ? null : toDecimal(value_minor, code),
    currency: value_minor === null ? null : code,
    ...{ before: change.before, after: change.after, parts: change.parts },
  };
};

export const summaryOf = (difference: Difference) => {
  const { changes, lines, events, byReason, conversions, money, samples } = difference;
  const rows = money.map(({ commission_minor, ...one }) => ({
    ...one,
    commission: toDecimal(commission_minor, one.currency),
  }));
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
