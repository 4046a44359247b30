// What a budget must keep to: in the currency of the client, of months that are still open.
import { dayOf, lockedFrom, monthsAfter } from "../../../domain/calendar.ts";
import { toMinor } from "../../../domain/money.ts";
import { Problem } from "../../../infra/http/problem.ts";
import { type BudgetAmount, type BudgetKey, setBudget } from "../../../modules/catalog/budgets/budgets.ts";
import { firstDayOf } from "../../../modules/catalog/budgets/pace.ts";
import { readSegments } from "../../../modules/catalog/clients/client-reads.ts";
import { fault } from "../request/accept.ts";
import type { Work } from "../route.ts";

/** What is planned lies no further away. */
export const MOST_MONTHS_AHEAD = 24;

interface Budget {
  readonly year: number;
  readonly month: number;
  readonly amount: string;
  readonly segment: string | null;
  readonly note?: string | null | undefined;
  readonly on_overspend?: "alert" | "stop" | undefined;
}

/** Throws Problem 409 `month_closed` when the month of this day is locked. */
export const checkOpen = (day: string, pointer: string): void => {
  if (lockedFrom(day) > Date.now()) return;
  const detail = "the month of this day is locked";
  throw new Problem("conflict", detail, {
    code: "month_closed",
    errors: [{ pointer, code: "month_closed", detail }],
  });
};

/** A budget that may be set. */
export interface CheckedBudget {
  readonly key: BudgetKey;
  readonly amount: BudgetAmount;
}

/**
 * `placeOf` says where a budget stands in the body. Throws Problem 400, and 409 for a locked month,
 * with the place of the fault.
 */
export const checkBudgets = async (
  { tx, scope }: Work,
  client: { readonly client_id: number; readonly currency: string },
  budgets: readonly Budget[],
  placeOf: (n: number) => string = (n) => `/budgets/${n}`,
): Promise<readonly CheckedBudget[]> => {
  if (budgets.length === 0) return [];
  const { client_id, currency } = client;
  const segments = (await readSegments(tx, client_id, scope.clients)).map(({ code }) => code);
  const latest = monthsAfter(`${dayOf(Date.now()).slice(0, 7)}-01`, MOST_MONTHS_AHEAD);
  const seen = new Set<string>();
  const checked = budgets.map(({ year, month, amount, segment, note, on_overspend }, n) => {
    const pointer = placeOf(n);
    const first = firstDayOf({ year, month });
    const read = toMinor(amount, currency);
    if (read.kind !== "amount") throw fault(`${pointer}/amount`, "invalid_value", `${read.why} (${currency})`);
    if (read.minor <= 0n) throw fault(`${pointer}/amount`, "invalid_value", "give more than zero");
    if (segment !== null && !segments.includes(segment))
      throw fault(`${pointer}/segment`, "unknown", "the client has no such segment");
    if (first > latest) throw fault(`${pointer}/month`, "invalid_value", `at most ${MOST_MONTHS_AHEAD} months ahead`);
    if (seen.has(`${first}:${segment}`)) throw fault(pointer, "duplicate_item", "give each budget once");
    seen.add(`${first}:${segment}`);
    const set = { amount_minor: read.minor, currency, note, on_overspend };
    return { key: { client_id, year, month, segment }, amount: set, first, pointer };
  });
  for (const { first, pointer } of checked) checkOpen(first, `${pointer}/month`);
  return checked;
};

/** Ids, in the order given. */
export const setBudgets = async ({ tx }: Work, budgets: readonly CheckedBudget[]): Promise<readonly number[]> => {
  const ids: number[] = [];
  for (const { key, amount } of budgets) ids.push((await setBudget(tx, key, amount)).budget_id);
  return ids;
};
