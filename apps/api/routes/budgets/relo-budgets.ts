// The routes of what a client wants to spend in a month, and of what it has spent.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import {
  type BudgetKey,
  type BudgetRow,
  budgetRows,
  readBudget,
  spentOf,
} from "../../../../modules/catalog/budgets/budgets.ts";
import { paceOf } from "../../../../modules/catalog/budgets/pace.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { checkBudgets, setBudgets } from "../../campaigns/budgets.ts";
import * as contracts from "../../contract/budgets/relo-budgets.ts";
import { fault } from "../../request/accept.ts";
import { checkFilter } from "../../request/filter.ts";
import { monthStateOf } from "../../request/range.ts";
import { type Route, route } from "../../route.ts";

/** What a change is compared by. */
const SETTINGS = ["id", "year", "month", "segment", "amount", "currency", "note", "on_overspend", "version"];

export const routes = (): readonly Route[] => [
  route(contracts.listBudgets, async ({ list, read, params, query }) => {
    await checkFilter({ read }, params.id);
    const { year, month, segment } = query;
    return list(budgetRows({ client_id: params.id, year, month, segment }), (rows, _scope, { tx }) =>
      complete(tx, params.id, rows as readonly BudgetRow[]),
    );
  }),

  route(contracts.saveBudget, ({ write, params, body, fields, checkVersion }) =>
    write(async (work) => {
      const { tx, scope, audit } = work;
      const { version: _, ...budget } = body;
      const { year, month, segment } = budget;
      const { currency } = await openClient(work, params.id, ["currency"]);
      if (budget.currency !== undefined && budget.currency !== currency)
        throw fault("/currency", "currency_mismatch", `budgets are in the currency of the client, ${currency}`);
      if (budget.on_overspend === "stop" && segment !== null)
        throw fault("/on_overspend", "invalid_value", "only a budget of all segments stops campaigns");
      const key: BudgetKey = { client_id: params.id, year, month, segment };
      const before = await readBudget(tx, key, scope.clients, SETTINGS);
      const checked = await checkBudgets(work, { client_id: params.id, currency }, [budget], () => "");
      checkVersion(before?.version ?? 0);
      await setBudgets(work, checked);
      const saved = (await readBudget(tx, key, scope.clients, [...fields, ...SETTINGS]))!;
      const entry = { action: "budget.set", client_id: params.id, entity: `budget:${saved.id}` };
      await audit({ ...entry, before: before && settingsOf(before), after: settingsOf(saved) });
      return {
        status: before === undefined ? 201 : 200,
        body: (await complete(tx, params.id, [saved]))[0],
        headers: { Location: `/api/clients/${params.id}/relo-budgets` },
      };
    }),
  ),
];

const settingsOf = ({ year, month, segment, amount, currency, note, on_overspend }: BudgetRow) => ({
  ...{ year, month, segment, amount: toDecimal(amount, currency), currency, note, on_overspend },
});

/** Adds what was spent, and where that leads. */
const complete = async (tx: PoolClient, clientId: number, rows: readonly BudgetRow[]) => {
  const now = Date.now();
  const spent = await spentOf(tx, clientId, rows);
  return rows.map((row, n) => {
    const { share, pace, forecast_minor } = paceOf(row, spent[n]!, row.amount, now);
    return {
      ...row,
      amount: toDecimal(row.amount, row.currency),
      spent: toDecimal(spent[n]!, row.currency),
      ...{ share, pace, forecast: forecast_minor === null ? null : toDecimal(forecast_minor, row.currency) },
      month_state: monthStateOf(row, now),
    };
  });
};
