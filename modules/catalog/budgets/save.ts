// Sets a monthly budget: a new one, or the next version of the one with this key.
import { toDecimal } from "../../../domain/money.ts";
import { checkVersion, invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { type BudgetKey, type BudgetRow, readBudget, setBudget } from "./budgets.ts";
import { type BudgetInput, type CheckedBudget, checkBudgets } from "./check.ts";

export interface BudgetChange {
  readonly client_id: number;
  /** The currency, if given, must be the client's. */
  readonly budget: BudgetInput & { readonly currency?: string | undefined };
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}
export interface BudgetResult {
  readonly key: BudgetKey;
  readonly isNew: boolean;
}

/** The fields that are compared to detect a change, and that the audit keeps. */
const SETTINGS = ["id", "year", "month", "segment", "amount", "currency", "note", "on_overspend", "version"];

/**
 * Throws RefusalError: missing, `client_archived`, invalid `currency_mismatch`, `invalid_value` and
 * `unknown`, `month_closed`, `version_conflict`.
 */
export const saveBudget = async (work: Work, { client_id, budget, version }: BudgetChange): Promise<BudgetResult> => {
  const { currency } = await openClient(work, client_id, ["currency"]);
  if (budget.currency !== undefined && budget.currency !== currency)
    throw invalid("/currency", "currency_mismatch", `budgets are in the currency of the client, ${currency}`);
  if (budget.on_overspend === "stop")
    throw invalid(
      "/on_overspend",
      "invalid_value",
      "nothing stops campaigns by a budget: give alert, and pause them when share reaches 1",
    );
  const [checked] = await checkBudgets(work, { client_id, currency }, [budget], () => "");
  const { key } = checked!;
  const before = await readBudget(work.tx, key, work.scope.clients, SETTINGS);
  checkVersion(version, before?.version ?? 0);
  await setAfter(work, before, checked!);
  return { key, isNew: before === undefined };
};

/** Sets budgets whose client is open. Returns their ids in the given order. */
export const setBudgets = async (work: Work, budgets: readonly CheckedBudget[]): Promise<readonly number[]> => {
  const ids: number[] = [];
  for (const budget of budgets) {
    const before = await readBudget(work.tx, budget.key, work.scope.clients, SETTINGS);
    ids.push(await setAfter(work, before, budget));
  }
  return ids;
};

const setAfter = async (
  { tx, scope, audit }: Work,
  before: BudgetRow | undefined,
  { key, amount }: CheckedBudget,
): Promise<number> => {
  const { budget_id } = await setBudget(tx, key, amount);
  const after = (await readBudget(tx, key, scope.clients, SETTINGS))!;
  const entry = { action: "budget.set", client_id: key.client_id, entity: `budget:${budget_id}` };
  await audit({ ...entry, before: before && settingsOf(before), after: settingsOf(after) });
  return budget_id;
};

const settingsOf = ({ year, month, segment, amount, currency, note, on_overspend }: BudgetRow) => ({
  ...{ year, month, segment, amount: toDecimal(amount, currency), currency, note, on_overspend },
});
