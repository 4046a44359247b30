// Compares the stored results of a window with what today's code and reference data compute, and
// adds up the differences. Writes nothing.
import { monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Change, CreditHolder, DecisionInput } from "./changes.ts";
import { readClaims } from "./claims.ts";
import { type Cost, costOf } from "./cost.ts";
import { nothingRecomputed, type RecomputedCounts } from "./event-outcomes.ts";
import { type MoneyMove, moneyOf } from "./money.ts";
import { compareLines, creditedLines, type LineCounts } from "./orders/lines.ts";
import type { ReprocessPorts, ReprocessSettings } from "./ports.ts";
import { recompute } from "./recompute.ts";
import { openToday } from "./todays-facts.ts";

export interface Difference {
  /** What was said of the reading before it began. */
  readonly cost: Cost;
  readonly lines: LineCounts;
  readonly events: RecomputedCounts;
  /** The changes that --yes writes, one decision each. */
  readonly changes: readonly Change[];
  /** Counts by the credit before and after, most frequent first. */
  readonly byReason: readonly {
    readonly from: string;
    readonly to: string;
    readonly lines: number;
    readonly events: number;
  }[];
  readonly conversions: {
    readonly gained: number;
    readonly lost: number;
    readonly moved: readonly { readonly from_partner: number; readonly to_partner: number; readonly lines: number }[];
  };
  readonly money: readonly (MoneyMove & { readonly closed: boolean })[];
  readonly samples: readonly Change[];
}

const SAMPLES = 20;
/** A month is provisional until day 7 of the next one (docs/design/contracts.md, "Months"). */
const PROVISIONAL_DAYS = 7;
const DAY_MS = 86_400_000;

/** Returns whether the month of Mexico City is final at `now`. */
export const isClosed = (year: number, month: number, now: UnixMs): boolean => {
  const next = monthsAfter(`${year}-${String(month).padStart(2, "0")}-01`, 1);
  return now >= startOfDay(new Date(Date.parse(next) + PROVISIONAL_DAYS * DAY_MS).toISOString().slice(0, 10));
};

/** What is heard while a difference is computed. */
export interface DifferenceEvents {
  /** Before anything is read. */
  readonly onCost?: (cost: Cost) => void;
  readonly onStep?: (step: "claims" | "events" | "lines" | "money", count: number) => void;
}

/** Throws TooMuch, and errors of its ports; changes nothing. */
export const differenceOf = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  { onCost, onStep: tell = () => undefined }: DifferenceEvents = {},
): Promise<Difference> => {
  const deciding: DecisionInput = { wire: ports.wire, now: ports.now, actor: settings.actor, reason: settings.reason };
  const indexed = await ports.indexed(settings);
  const cost = await costOf(ports, settings, indexed);
  onCost?.(cost);
  tell("claims", 0);
  const claims = await readClaims(ports, settings, indexed);
  if (settings.stage === "commission") {
    tell("lines", 0);
    const credited = await creditedLines(ports, settings, claims, deciding);
    tell("money", credited.changes.length);
    const { moved, moves } = await moneyOf(ports, credited.changes);
    const changes = credited.changes.filter(({ decision_id }) => moves.has(decision_id));
    return summed(changes, { cost, lines: credited.counts, events: nothingRecomputed }, moved, ports.now);
  }
  const today = await openToday(ports.read, ports.now);
  tell("events", 0);
  const recomputed = await recompute(ports, settings, {
    claims,
    today,
    deciding,
    tell: (read) => tell("events", read),
  });
  tell("lines", claims.orders.size);
  const compared = await compareLines(ports, settings, claims, recomputed.rowOf, deciding);
  const changes = [...compared.changes, ...recomputed.changes];
  tell("money", compared.changes.length);
  const { moved } = await moneyOf(ports, compared.changes);
  return summed(changes, { cost, lines: compared.counts, events: recomputed.counts }, moved, ports.now);
};

const summed = (
  changes: readonly Change[],
  counts: Pick<Difference, "cost" | "lines" | "events">,
  moved: readonly MoneyMove[],
  now: UnixMs,
): Difference => {
  const reasons = new Map<string, { from: string; to: string; lines: number; events: number }>();
  const moves = new Map<string, { from_partner: number; to_partner: number; lines: number }>();
  const conversions = { gained: 0, lost: 0 };
  for (const change of changes) {
    const { from, to } = wordsOf(change);
    const reason = reasons.get(`${from}\n${to}`) ?? { from, to, lines: 0, events: 0 };
    reasons.set(`${from}\n${to}`, reason);
    reason[change.scope === "line" ? "lines" : "events"] += 1;
    const [before, after] = [change.before.partner_id, change.after.partner_id];
    if (change.scope === "event" || before === after) continue;
    if (before === null) conversions.gained += 1;
    else if (after === null) conversions.lost += 1;
    else {
      const pair = moves.get(`${before} ${after}`) ?? { from_partner: before, to_partner: after, lines: 0 };
      moves.set(`${before} ${after}`, pair);
      pair.lines += 1;
    }
  }
  return {
    ...counts,
    changes,
    byReason: [...reasons.values()].sort((a, b) => b.lines + b.events - a.lines - a.events),
    conversions: { ...conversions, moved: [...moves.values()].sort((a, b) => b.lines - a.lines) },
    money: moved.map((one) => ({ ...one, closed: isClosed(one.year, one.month, now) })),
    samples: changes.slice(0, SAMPLES),
  };
};

const partnerIn = ({ partner_id, because }: CreditHolder): string =>
  partner_id === null ? because : `${because} partner ${partner_id}`;
/** When the credit is unchanged, names the other parts that changed. */
const wordsOf = ({ before, after, parts }: Change): { readonly from: string; readonly to: string } => {
  const [from, to] = [partnerIn(before), partnerIn(after)];
  if (from !== to) return { from, to };
  return { from, to: parts.length === 0 ? `${to}, commission recomputed` : `${to}, ${parts.join(" and ")} recomputed` };
};

/** Returns the closed months whose money would move; they may have been paid already. */
export const closedMonthsOf = ({ money }: Difference): readonly string[] => [
  ...new Set(
    money.filter(({ closed }) => closed).map(({ year, month }) => `${year}-${String(month).padStart(2, "0")}`),
  ),
];
