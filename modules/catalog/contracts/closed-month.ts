// Finds the days that a change of a contract affects, and whether their month is locked.
import { dayOf, lockedFrom } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** A shown or saved contract: `effective_from`, `effective_to` and its terms. */
type Contract = Readonly<Record<string, any>>;

/** Fields that saving sets, and the end of a contract. */
const NOT_TERMS = ["version", "recorded_at", "created_at", "updated_at", "in_force", "effective_to"];
const termsIn = (contract: Contract): string =>
  JSON.stringify(Object.entries(contract).filter(([name]) => !NOT_TERMS.includes(name)));
const ENDLESS = "9999-12-31";

/**
 * Returns the days on which a sale would be paid differently than before, excluding `to` (null:
 * without an end); undefined if there is none.
 */
export const daysChanged = (
  before: Contract | undefined,
  after: Contract,
): { readonly from: string; readonly to: string | null } | undefined => {
  const endOf = ({ effective_to }: Contract): string => effective_to ?? ENDLESS;
  const [first, last] = [endOf(before ?? after), endOf(after)].sort() as [string, string];
  const to = last === ENDLESS ? null : last;
  if (before === undefined || termsIn(before) !== termsIn(after)) return { from: after.effective_from, to };
  return first === last ? undefined : { from: first, to };
};

/** The field of the contract from which the changed day comes. */
export const fieldOf = (day: string, { effective_from }: Contract): "effective_from" | "effective_to" =>
  day === effective_from ? "effective_from" : "effective_to";

export interface ClosedMonth {
  readonly field: "effective_from" | "effective_to";
  readonly detail: string;
}

/**
 * Terms of a locked month stay, but a contract that began then can still end or continue. Returns
 * null if the change affects open months only.
 */
export const closedMonthOf = (before: Contract | undefined, after: Contract, now: UnixMs): ClosedMonth | null => {
  const day = daysChanged(before, after)?.from;
  if (day === undefined || day >= dayOf(now) || now < lockedFrom(day)) return null;
  return {
    field: fieldOf(day, after),
    detail: `the month of ${day} is closed: begin in an open month, or end this one there and save another`,
  };
};
