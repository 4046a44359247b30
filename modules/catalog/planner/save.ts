// Replaces the plan of a month by a draft.
import { checkVersion, conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { refuseFarAhead, refuseLocked } from "../budgets/open-month.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { changesBetween } from "./changes.ts";
import { checkLines, type LineInput } from "./check-lines.ts";
import { openPlan, type PlanResult, takeStep } from "./open-plan.ts";
import type { PlanKey } from "./plan.ts";
import { addLines } from "./plans.ts";

export interface PlanInput {
  readonly key: PlanKey;
  /** All lines of the plan. */
  readonly lines: readonly LineInput[];
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing, `client_archived`, invalid `invalid_value` and the refusals of
 * `checkLines`, `version_conflict`, `plan_approved`, `month_closed`.
 */
export const savePlan = async (work: Work, { key, lines: input, version }: PlanInput): Promise<PlanResult> => {
  const plan = await openPlan(work, key);
  const { before, client } = plan;
  refuseFarAhead(key, "/month", work.now);
  const lines = await checkLines(work, { client_id: key.client_id, currency: client.currency }, input);
  checkVersion(version, before.version);
  if (before.status === "approved") throw conflict("plan_approved", "this plan is approved: reopen it first");
  refuseLocked(firstDayOf(key), "/month", work.now);
  const after = { ...before, version: before.version + 1, currency: client.currency, lines };
  await addLines(work.tx, key, after.version, lines);
  return takeStep(work, plan, { action: "planner.saved", after, changes: changesBetween(before.lines, lines) });
};
