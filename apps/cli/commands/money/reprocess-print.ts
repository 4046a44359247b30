// Prints a difference for people and as JSON: what would change, for whom, what it costs, and what
// is left alone and why.
import { toDecimal } from "../../../../domain/money.ts";
import { table } from "../../../../infra/runtime/output.ts";
import type { Change } from "../../../../modules/money/reprocess/changes.ts";
import type { Cost } from "../../../../modules/money/reprocess/cost.ts";
import type { Difference } from "../../../../modules/money/reprocess/difference.ts";
import { sampleOf, shownMoney } from "../../../../modules/money/reprocess/running/summary.ts";
import { spanOf } from "../../moments.ts";

const REASONS_SHOWN = 20;

const monthName = ({ year, month }: { readonly year: number; readonly month: number }): string =>
  `${year}-${String(month).padStart(2, "0")}`;
const signed = (minor: bigint, currency: string): string => `${minor > 0n ? "+" : ""}${toDecimal(minor, currency)}`;
const heldText = ({ partner_id, because }: Change["before"]): string =>
  partner_id === null ? because : `${because} partner ${partner_id}`;
const idOf = ({ sender_event_id, event_id }: Change): string => sender_event_id ?? event_id;

/**
 * Returns everything that the difference does not write, with the reasons; empty when there is
 * nothing.
 */
const leftAlone = ({ lines, events }: Difference): readonly string[] =>
  (
    [
      [lines.decided + events.decided, "would differ, but a person has decided about them (--override-decisions)"],
      [lines.not_settled, "sales are not settled yet: wait until `tributary lag` shows 0 for settle"],
      [lines.of_totals, "are of orders whose total or amount of before cannot be set back: they stay as they are"],
      [
        lines.not_read,
        "sales reached the log more than 48 h after their receipt: they were taken as they were read then",
      ],
      [
        events.not_stored,
        "events are in no store: not processed yet, or lost (`tributary replay` brings lost rows back)",
      ],
      [
        events.would_be_claims,
        "custom events would be sales with today's contracts: they stay what they were, and are not written",
      ],
      [
        events.would_be_no_claims,
        "sales would be none with today's contracts: they stay what they were, and are not written",
      ],
      [events.would_be_dropped, "events would not be stored today: they stay, and are not written"],
    ] as const
  )
    .filter(([count]) => count > 0)
    .map(([count, why]) => `${count} ${why}`);

/** Returns in one sentence what --yes would do. */
export const consequenceOf = ({ changes, money }: Difference): string => {
  const lines = changes.filter(({ scope }) => scope === "line").length;
  const moved = money.map(
    (one) =>
      `partner ${one.partner_id} ${signed(one.commission_minor, one.currency)} ${one.currency} in ${monthName(one)}`,
  );
  const shown = moved.length > 6 ? [...moved.slice(0, 6), `and ${moved.length - 6} more`] : moved;
  return (
    `${changes.length} decisions (${lines} about sales, ${changes.length - lines} about other ` +
    `events); ${shown.length === 0 ? "no money moves" : shown.join(", ")}`
  );
};

/** Says what will be read, and about how long that takes. */
export const costText = ({ events, orders, claims, copies, messages, seconds }: Cost): string =>
  `${events} events and ${orders} orders of the window; to read: ${messages} messages of the log (${claims} claims; ` +
  `${copies} copies around the window), about ${spanOf(seconds)}`;

const reasonsText = ({ byReason }: Difference): readonly string[] => {
  const shown = table(
    ["from", "to", "sales", "other events"],
    byReason.slice(0, REASONS_SHOWN).map(({ from, to, lines: sales, events: others }) => [from, to, sales, others]),
  );
  const more = byReason.length - REASONS_SHOWN;
  return more > 0 ? [shown, `and ${more} more kinds of change; --json lists them all`] : [shown];
};

const conversionsText = ({ conversions: { gained, lost, moved } }: Difference): string => {
  const between = moved.map(
    ({ from_partner, to_partner, lines: sales }) => `${sales} from ${from_partner} to ${to_partner}`,
  );
  return `conversions: ${gained} gained, ${lost} lost, moved ${between.join(", ") || "0"}`;
};

const moneyText = ({ money }: Difference): string =>
  money.length === 0
    ? "no money moves"
    : table(
        ["client", "partner", "month", "commission", "currency", ""],
        money.map((one) => [
          one.client_id,
          one.partner_id,
          monthName(one),
          signed(one.commission_minor, one.currency),
          one.currency,
          one.closed ? "closed" : "",
        ]),
      );

const samplesText = ({ samples }: Difference): string =>
  `samples, for \`tributary explain\`:\n${table(
    ["event", "type", "order", "value", "from", "to"],
    samples.map((one) => [
      idOf(one),
      one.t,
      one.order_id,
      one.value_minor === null ? null : `${toDecimal(one.value_minor, one.currency ?? "MXN")} ${one.currency ?? "MXN"}`,
      heldText(one.before),
      heldText(one.after),
    ]),
  )}`;

export const differenceText = (difference: Difference): string => {
  const { lines, events, changes } = difference;
  const left = leftAlone(difference);
  return [
    `looked at ${lines.lines} sales and ${events.events} events of the window (${events.read} read, ` +
      "copies around it and clicks before it included)",
    ...(changes.length === 0
      ? ["nothing differs"]
      : [...reasonsText(difference), conversionsText(difference), moneyText(difference), samplesText(difference)]),
    ...(left.length > 0 ? [`left alone:\n${left.map((line) => `- ${line}`).join("\n")}`] : []),
  ].join("\n\n");
};

/** The difference for programs, as the platform API shows it, but unbounded. */
export const differenceJson = ({ changes, samples, byReason, money, ...rest }: Difference) => ({
  ...rest,
  by_reason: byReason,
  decisions: changes.length,
  money: shownMoney(money),
  samples: samples.map(sampleOf),
});
