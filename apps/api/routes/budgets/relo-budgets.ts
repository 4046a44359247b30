// The routes of the budgets of a client by month, with what was spent.
import { type BudgetRow, budgetRows } from "../../../../modules/catalog/budgets/budgets.ts";
import { saveBudget } from "../../../../modules/catalog/budgets/save.ts";
import { readShownBudget, shownBudgets } from "../../../../modules/catalog/budgets/shown-budgets.ts";
import * as contracts from "../../contract/budgets/relo-budgets.ts";
import { checkFilter } from "../../request/filter.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listBudgets, async (ask) => {
    const { params, query } = ask;
    await checkFilter(ask, params.id);
    const { year, month, segment } = query;
    return ask.list(budgetRows({ client_id: params.id, year, month, segment }), (rows, _scope, { tx }) =>
      shownBudgets(tx, params.id, rows as readonly BudgetRow[], Date.now()),
    );
  }),

  route(contracts.saveBudget, ({ write, params, input, fields, version }) =>
    write(
      (work) => saveBudget(work, { client_id: params.id, budget: input, version }),
      async ({ key, isNew }, { tx, scope, now }) => ({
        status: isNew ? 201 : 200,
        body: await readShownBudget(tx, key, scope.clients, fields, now),
        headers: { Location: `/api/clients/${params.id}/relo-budgets` },
      }),
    ),
  ),
];
