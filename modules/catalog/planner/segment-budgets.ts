// A partner's planned lines in a month, with their results.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import type { MonthOfYear } from "../budgets/pace.ts";
import { readPartner } from "../partners/partner-reads.ts";
import { lineFigures } from "./plan-figures.ts";
import { linesOfPartner } from "./plans.ts";
import { shownFigures } from "./shown-plan.ts";

export interface SegmentBudgetsQuery {
  readonly partner_id: number;
  /** Undefined: all clients for which the partner works or worked. */
  readonly client_id: number | undefined;
  readonly month: MonthOfYear;
  /** If true, lines of drafts are left out, which only planners see. */
  readonly isApprovedOnly: boolean;
  /** The time up to which figures are known. */
  readonly at: UnixMs;
}

/**
 * Reads the lines at those of the clients that know the partner, and names these clients. Throws
 * RefusalError: missing if there is none.
 */
export const readSegmentBudgets = async (
  tx: PoolClient,
  scope: readonly number[],
  { partner_id, client_id, month, isApprovedOnly, at }: SegmentBudgetsQuery,
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
