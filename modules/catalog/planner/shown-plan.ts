// Plans in the form of API responses: decimal amounts, names of partners, rates of contracts, and
// the results of each line.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { partnerNames } from "../../figures/reads/names.ts";
import { firstDayOf, monthStateOf } from "../budgets/pace.ts";
import { percentRatesOn } from "../contracts/rates.ts";
import type { Changes } from "./changes.ts";
import type { Plan, PlanKey, PlanLine } from "./plan.ts";
import { type LineFigures, lineFigures } from "./plan-figures.ts";

export const shownFigures = (currency: string, { commission_minor, forecast_minor, ...figures }: LineFigures) => ({
  ...figures,
  commission: toDecimal(commission_minor, currency),
  forecast: forecast_minor === null ? null : toDecimal(forecast_minor, currency),
});

const amountsIn = (currency: string, { budget_minor, target_conversions, rate }: PlanLine) => ({
  ...{ budget: toDecimal(budget_minor, currency), target_conversions, rate },
});
export const shownLine = (currency: string, line: PlanLine) => ({
  ...{ partner_id: line.partner_id, segment: line.segment },
  ...amountsIn(currency, line),
});

const partnersIn = (lines: readonly PlanLine[]): readonly number[] => [
  ...new Set(lines.map(({ partner_id }) => partner_id)),
];

/** Lines of the previous month that a plan may take over. */
export const suggestedLines = async (tx: PoolClient, currency: string, lines: readonly PlanLine[]) => {
  const names = await partnerNames(tx, partnersIn(lines));
  return lines.map((line) => ({ ...shownLine(currency, line), partner: names.get(line.partner_id) ?? null }));
};

/**
 * `at` is the time up to which figures are known; `currency` is the client's, for a plan without
 * one.
 */
export const shownPlan = async (
  tx: PoolClient,
  key: PlanKey,
  plan: Plan,
  { currency: own, at, now }: { readonly currency: string; readonly at: UnixMs; readonly now: UnixMs },
) => {
  const { client_id, year, month } = key;
  const { currency = own, lines, status, version } = plan;
  const partners = partnersIn(lines);
  const [names, rateOf, figures] = [
    await partnerNames(tx, partners),
    await percentRatesOn(tx, client_id, partners, firstDayOf(key)),
    await lineFigures(
      tx,
      lines.map((line) => ({ ...line, client_id, currency })),
      { year, month },
      at,
    ),
  ];
  return {
    ...{ client_id, year, month, status, version, currency, month_state: monthStateOf(key, now) },
    lines: lines.map((line, n) => ({
      ...shownLine(currency, line),
      partner: names.get(line.partner_id) ?? null,
      contract_rate: rateOf(line.partner_id, line.segment),
      ...shownFigures(currency, figures.lines[n]!),
    })),
    totals: { ...totalsOf(currency, lines), ...shownFigures(currency, figures.total) },
  };
};

export const totalsOf = (currency: string, lines: readonly PlanLine[]) => ({
  budget: toDecimal(
    lines.reduce((sum, { budget_minor }) => sum + budget_minor, 0n),
    currency,
  ),
  target_conversions: lines.reduce((sum, { target_conversions }) => sum + target_conversions, 0),
});

export const shownChanges = (currency: string, changes: Changes) =>
  changes.map(({ before, after }) => {
    const { partner_id, segment } = (after ?? before)!;
    return {
      ...{ partner_id, segment },
      before: before && amountsIn(currency, before),
      after: after && amountsIn(currency, after),
    };
  });
