// Budgets in the form of API responses: amounts as decimals, with the spend.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type BudgetKey, type BudgetRow, readBudget, spentOf } from "./budgets.ts";
import { monthStateOf, paceOf } from "./pace.ts";

/**
 * Adds spend, pace and forecast to budgets of one client. `at` is the time up to which spend is
 * known.
 */
export const shownBudgets = async (tx: PoolClient, clientId: number, rows: readonly BudgetRow[], at: UnixMs) => {
  const spent = await spentOf(tx, clientId, rows);
  return rows.map((row, n) => {
    const { amount, currency } = row;
    const { share, pace, forecast_minor } = paceOf(row, spent[n]!, amount, at);
    return {
      ...row,
      amount: toDecimal(amount, currency),
      spent: toDecimal(spent[n]!, currency),
      ...{ share, pace, forecast: forecast_minor === null ? null : toDecimal(forecast_minor, currency) },
      month_state: monthStateOf(row, at),
    };
  });
};

/**
 * The budget with these fields in the form of API responses; undefined if none of these clients has
 * it.
 */
export const readShownBudget = async (
  tx: PoolClient,
  key: BudgetKey,
  clients: readonly number[],
  names: readonly string[],
  at: UnixMs,
) => {
  // The fields that are needed to find the spend.
  const needed = ["year", "month", "segment", "amount", "currency"];
  const row = await readBudget(tx, key, clients, [...new Set([...names, ...needed])]);
  return row === undefined ? undefined : (await shownBudgets(tx, key.client_id, [row], at))[0];
};
