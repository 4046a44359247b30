// The plan of a month with its history, the client's budget, and suggestions for its lines.
import type { PoolClient } from "pg";
import { monthsAfter } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { readShownBudget } from "../budgets/shown-budgets.ts";
import { readClient } from "../clients/client-reads.ts";
import { partnersAt } from "../partners/named-partners.ts";
import type { PlanKey } from "./plan.ts";
import { historyOf, readPlan } from "./plans.ts";
import { shownPlan, suggestedLines } from "./shown-plan.ts";

/** `at` is the time up to which figures are known. Throws RefusalError: missing. */
export const readMonthPlan = async (
  tx: PoolClient,
  key: PlanKey,
  clients: readonly number[],
  { at, now }: { readonly at: UnixMs; readonly now: UnixMs },
) => {
  const client = await readClient(tx, key.client_id, clients, ["currency"]);
  if (client === undefined) throw missing();
  const { currency } = client.shown;
  const plan = await readPlan(tx, key);
  return {
    ...(await shownPlan(tx, key, plan, { currency, at, now })),
    relo_budget: await budgetOf(tx, key, clients, at),
    suggestions: plan.version === 0 ? await suggestionsFor(tx, key, currency) : [],
    history: await historyOf(tx, key),
  };
};

/** The client's budget for all segments in the month. */
const budgetOf = async (tx: PoolClient, key: PlanKey, clients: readonly number[], at: UnixMs) => {
  const budget = await readShownBudget(tx, { ...key, segment: null }, clients, [], at);
  if (budget === undefined) return null;
  const { amount, currency, spent, share, forecast } = budget;
  return { amount, currency, spent, share, forecast };
};

/** Lines of the previous month whose partners still work for the client, in today's currency. */
const suggestionsFor = async (tx: PoolClient, { client_id, ...month }: PlanKey, currency: string) => {
  const [year, before] = monthsAfter(firstDayOf(month), -1).split("-").map(Number);
  const former = await readPlan(tx, { client_id, year: year!, month: before! });
  if (former.currency !== currency) return [];
  const partners = former.lines.map(({ partner_id }) => partner_id);
  const statuses = await partnersAt(tx, client_id, partners);
  const lines = former.lines.filter(({ partner_id }) => (statuses.get(partner_id) ?? "archived") !== "archived");
  return suggestedLines(tx, currency, lines);
};
