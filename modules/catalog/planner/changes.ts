// Compares two versions of a plan line by line.
import type { PlanLine } from "./plan.ts";

/** A line before and after; null: it does not exist there. */
interface LineChange {
  readonly before: PlanLine | null;
  readonly after: PlanLine | null;
}
export type Changes = readonly LineChange[];

const keyOf = ({ partner_id, segment }: PlanLine): string => `${partner_id} ${segment ?? ""}`;
const isSame = (a: PlanLine, b: PlanLine): boolean =>
  a.budget_minor === b.budget_minor && a.target_conversions === b.target_conversions && a.rate === b.rate;

/**
 * Returns changes in the order of `after`, removed lines last. Partner and segment identify a line.
 */
export const changesBetween = (before: readonly PlanLine[], after: readonly PlanLine[]): Changes => {
  const known = new Map(before.map((line) => [keyOf(line), line]));
  const kept = new Set(after.map(keyOf));
  return [
    ...after
      .map((line) => ({ before: known.get(keyOf(line)) ?? null, after: line }))
      .filter((one) => one.before === null || !isSame(one.before, one.after)),
    ...before.filter((line) => !kept.has(keyOf(line))).map((line) => ({ before: line, after: null })),
  ];
};

export const countsOf = (changes: Changes) => ({
  added: changes.filter(({ before }) => before === null).length,
  changed: changes.filter(({ before, after }) => before !== null && after !== null).length,
  removed: changes.filter(({ after }) => after === null).length,
});
