// A partner's planned lines in a month, with their results.
import type { PoolClient } from "pg";
import { monthOf } from "../../../domain/calendar.ts";
import { toDecimal } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import type { ScopedRead } from "../../base/work.ts";
import { type FigureStores, frameOf, stampFor } from "../../figures/dashboards/frame.ts";
import { daysOfMonth, type MonthOfYear } from "../budgets/pace.ts";
import { readPartner } from "../partners/partner-reads.ts";
import { lineFigures } from "./plan-figures.ts";
import { linesOfPartner } from "./plans.ts";
import { shownFigures } from "./shown-plan.ts";

export interface SegmentBudgetsQuery {
  readonly partner_id: number;
  /** Undefined: all clients for which the partner works or worked. */
  readonly client_id?: number | undefined;
  /** Undefined: the current year or month. */
  readonly year?: number | undefined;
  readonly month?: number | undefined;
  /** If true, lines of drafts are left out, which only planners see. */
  readonly isApprovedOnly: boolean;
}

/** Throws Unavailable, and RefusalError: missing when no client of the caller knows the partner. */
export const segmentBudgets = async (stores: FigureStores, read: ScopedRead, query: SegmentBudgetsQuery) => {
  const today = monthOf(Date.now());
  const month = { year: query.year ?? today.year, month: query.month ?? today.month };
  const frame = await frameOf(stores, daysOfMonth(month));
  const { clients, data } = await read((tx, scope) =>
    budgetsIn(tx, scope.clients, query, month, frame.asOf ?? frame.now),
  );
  return { ...(await stampFor(stores, frame, clients)), ...month, data };
};

/** Figures are known up to the time `at`. */
const budgetsIn = async (
  tx: PoolClient,
  scope: readonly number[],
  { partner_id, client_id, isApprovedOnly }: SegmentBudgetsQuery,
  month: MonthOfYear,
  at: UnixMs,
) => {
  const partner = await readPartner(tx, partner_id, scope, []);
  const clients = (partner?.state.known_to ?? []).filter(
    (id) => scope.includes(id) && (client_id === undefined || id === client_id),
  );
  if (clients.length === 0) throw missing();
  const all = await linesOfPartner(tx, partner_id, clients, month);
  const lines = isApprovedOnly ? all.filter(({ status }) => status === "approved") : all;
  const figures = await lineFigures(tx, lines, month, at);
  const data = lines.map((line, n) => ({
    ...{ client_id: line.client_id, segment: line.segment, budget: toDecimal(line.budget_minor, line.currency) },
    ...{ currency: line.currency, target_conversions: line.target_conversions },
    ...shownFigures(line.currency, figures.lines[n]!),
    ...{ plan_status: line.status, rate: line.rate },
  }));
  return { clients, data };
};
