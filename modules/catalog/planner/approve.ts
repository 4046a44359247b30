// Approves the plan of a month, after which its lines and the contracts of its partners cannot
// change.
import { checkVersion, conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { refuseLocked } from "../budgets/open-month.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { changesBetween } from "./changes.ts";
import { checkRates } from "./check-lines.ts";
import { followStep } from "./follow-step.ts";
import { invalidStep, openPlan, type PlanResult, takeStep } from "./open-plan.ts";
import type { PlanKey } from "./plan.ts";
import { approvedLines } from "./plans.ts";

export interface PlanApproval {
  readonly key: PlanKey;
  /** The name of the approving user, for the mails. */
  readonly approver: string;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing, `client_archived`, `version_conflict`, `invalid_transition`,
 * `plan_empty`, `month_closed`, `rate_mismatch`.
 */
export const approvePlan = async (work: Work, { key, approver, version }: PlanApproval): Promise<PlanResult> => {
  const plan = await openPlan(work, key);
  const { before, client } = plan;
  checkVersion(version, before.version);
  if (before.status === "approved") throw invalidStep("approved", "approved");
  if (before.lines.length === 0) throw conflict("plan_empty", "this plan has no lines: save some first");
  refuseLocked(firstDayOf(key), "/month", work.now);
  await checkRates(work, key, before);
  const changes = changesBetween(await approvedLines(work.tx, key), before.lines);
  const after = { ...before, status: "approved" as const };
  const result = await takeStep(work, plan, { action: "planner.approved", after, changes });
  const { lines, version: approved } = after;
  const { currency } = result;
  const names = { name: client.name, actor: approver };
  await followStep(work, key, { move: "approved", version: approved, currency, lines, changes, ...names });
  return result;
};
