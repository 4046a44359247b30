// The months that a change of a contract would touch, and must not: those that are locked.
import { dayOf, lockedFrom } from "../../domain/calendar.ts";
import type { UnixMs } from "../../stream/flow.ts";

/** A contract as it is shown or saved: `effective_from`, `effective_to` and its terms. */
type Saved = Readonly<Record<string, any>>;

/** What follows from saving, and the end of a contract. */
const NOT_TERMS = ["version", "recorded_at", "in_force", "effective_to"];
const termsIn = (contract: Saved): string =>
  JSON.stringify(Object.entries(contract).filter(([name]) => !NOT_TERMS.includes(name)));
const ENDLESS = "9999-12-31";

/** The first day on which a sale would be paid otherwise than before. */
const firstDayChanged = (before: Saved | undefined, after: Saved): string => {
  if (before === undefined || termsIn(before) !== termsIn(after)) return after.effective_from;
  const [first] = [before.effective_to ?? ENDLESS, after.effective_to ?? ENDLESS].sort();
  return first!;
};

export interface ClosedMonth {
  readonly field: "effective_from" | "effective_to";
  readonly detail: string;
}

/**
 * Terms of a locked month stay; a contract that began then can still end, or go on. Null when the
 * change touches open months alone.
 */
export const closedMonthOf = (before: Saved | undefined, after: Saved, now: UnixMs): ClosedMonth | null => {
  const day = firstDayChanged(before, after);
  if (day >= dayOf(now) || now < lockedFrom(day)) return null;
  return {
    field: day === after.effective_from ? "effective_from" : "effective_to",
    detail: `the month of ${day} is closed: begin in an open month, or end this one there and save another`,
  };
};
