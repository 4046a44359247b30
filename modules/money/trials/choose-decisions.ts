// Chooses which decisions of a trial are written, and what exactly those book.
import { monthOf } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Change } from "../reprocess/changes.ts";
import { isClosed } from "../reprocess/difference.ts";
import { type BookedBy, choosing, type MoneyPorts } from "../reprocess/money.ts";

/**
 * sent: the decision is written. same: the event has the right credit, and booking it again would
 * move nothing, or would move a closed month. left_to_recalc: its line earns, and money was not to
 * move. left_in_closed_months: its sale, or money that it would move, lies in a closed month.
 */
export type Fate = "sent" | "same" | "left_to_recalc" | "left_in_closed_months";

/** A decision that may be written. */
export interface Proposal {
  /** Undefined if nothing is to decide. */
  readonly change: Change | undefined;
  /** True when the line earns, and the change would close its conversion and open another one. */
  readonly isHeld: boolean;
  /** True when the credit does not change and is booked again. */
  readonly isAgain: boolean;
}

export interface Period {
  readonly partner_id: number;
  readonly year: number;
  readonly month: number;
}

/** The sums by which a decision moves money in a month, without those that are 0. */
const movesOf = (booked: readonly BookedBy[]) => {
  const sums = new Map<string, Period & { readonly decision_id: string; minor: bigint }>();
  for (const { entry, decision_id } of booked) {
    const { partner_id, year, month, currency, amount_minor } = entry;
    const key = `${decision_id} ${partner_id} ${year} ${month} ${currency}`;
    const known = sums.get(key) ?? { decision_id, partner_id, year, month, minor: 0n };
    known.minor += amount_minor;
    sums.set(key, known);
  }
  return [...sums.values()].filter(({ minor }) => minor !== 0n);
};

/** Why a sale that earned nothing earns when it is booked again. Caps are no such reason. */
const OWED: ReadonlySet<string | null> = new Set(["recalc_not_asked", "no_contract", "incomplete_contract"]);

/**
 * The decisions that take back nothing, since their sale was credited without a contract or without
 * a recalculation. What earned already is left: its cap or its month of tiers has filled since, and
 * booking it again would move money with each run.
 */
const owedIn = (booked: readonly BookedBy[]): ReadonlySet<string> => {
  const first = new Map<string, BookedBy["entry"]>();
  for (const { entry, decision_id } of booked) if (!first.has(decision_id)) first.set(decision_id, entry);
  return new Set([...first].flatMap(([id, { kind, reason }]) => (kind === "none" && OWED.has(reason) ? id : [])));
};

/** The closed month of a decision's sale, for each partner who gains or loses it. */
const closedOf = ({ at, before, after }: Change, now: UnixMs): readonly Period[] => {
  const { year, month } = monthOf(at);
  if (!isClosed(year, month, now)) return [];
  return [...new Set([before.partner_id, after.partner_id])]
    .filter((partner_id) => partner_id !== null)
    .map((partner_id) => ({ partner_id, year, month }));
};

/**
 * What is decided before any money is folded. A sale of a closed month is left whatever it would
 * move: whether it would move something depends on what the others fill of a cap, so a second run
 * would decide otherwise.
 */
const firstFate = ({ change, isAgain, isHeld }: Proposal, recalculates: boolean, now: UnixMs): Fate => {
  if (change === undefined || (isAgain && !recalculates)) return "same";
  if (!recalculates) return isHeld ? "left_to_recalc" : "sent";
  if (change.scope !== "line" || closedOf(change, now).length === 0) return "sent";
  return isAgain ? "same" : "left_in_closed_months";
};

/**
 * Returns a function that chooses among the proposals of a page; later pages continue from there.
 * `recalculates` is false when the decisions must move no money.
 */
export const choosingDecisions = (ports: MoneyPorts, recalculates: boolean, now: UnixMs) => {
  const again = new Set<string>();
  const choose = choosing<Change>(ports, (changes, booked) => {
    if (!recalculates) return -1;
    const moves = movesOf(booked);
    const moving = new Set(moves.map(({ decision_id }) => decision_id));
    const owed = owedIn(booked);
    // Amounts of an order may move to another of its lines, whose month is closed.
    const inClosed = new Set(moves.filter((one) => isClosed(one.year, one.month, now)).map((one) => one.decision_id));
    const isPaid = (id: string): boolean => again.has(id) && !(owed.has(id) && moving.has(id));
    return changes.findIndex(({ decision_id: id }) => inClosed.has(id) || isPaid(id));
  });
  return async <One extends Proposal>(proposals: readonly One[]) => {
    const first = new Map(proposals.map((one) => [one, firstFate(one, recalculates, now)]));
    const asked = proposals.filter((one) => first.get(one) === "sent" && one.change?.scope === "line");
    again.clear();
    for (const { change, isAgain } of asked) if (isAgain) again.add(change!.decision_id);
    const { booked, left } = await choose(asked.map(({ change }) => change!));
    const closed = proposals.flatMap((one) =>
      first.get(one) === "left_in_closed_months" ? closedOf(one.change!, now) : [],
    );
    const later = new Map<Change | undefined, Fate>();
    for (const { change, booked: would } of left) {
      const moves = movesOf(would).filter(({ year, month }) => isClosed(year, month, now));
      later.set(change, moves.length === 0 ? "same" : "left_in_closed_months");
      closed.push(...moves.map(({ partner_id, year, month }) => ({ partner_id, year, month })));
    }
    return { fateOf: (one: One): Fate => later.get(one.change) ?? first.get(one)!, booked, closed };
  };
};
