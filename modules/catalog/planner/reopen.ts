// Turns an approved plan into a draft, as its next version.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { refuseLocked } from "../budgets/open-month.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { followStep } from "./follow-step.ts";
import { invalidStep, openPlan, type PlanResult, takeStep } from "./open-plan.ts";
import type { PlanKey } from "./plan.ts";
import { addLines } from "./plans.ts";

export interface PlanReopening {
  readonly key: PlanKey;
  /** The reason, for the mails and the history. */
  readonly reason: string | undefined;
  /** The name of the acting user, for the mails. */
  readonly opener: string;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing, `client_archived`, `version_conflict`, `invalid_transition`,
 * `month_closed`.
 */
export const reopenPlan = async (work: Work, { key, reason, opener, version }: PlanReopening): Promise<PlanResult> => {
  const plan = await openPlan(work, key);
  const { before, client } = plan;
  checkVersion(version, before.version);
  if (before.status !== "approved") throw invalidStep("draft", "draft");
  refuseLocked(firstDayOf(key), "/month", work.now);
  const after = { ...before, status: "draft" as const, version: before.version + 1 };
  await addLines(work.tx, key, after.version, after.lines);
  const result = await takeStep(work, plan, { action: "planner.reopened", after, changes: [], reason });
  const { lines, version: opened } = after;
  const { currency } = result;
  const names = { name: client.name, actor: opener };
  await followStep(work, key, { move: "reopened", version: opened, currency, lines, changes: [], reason, ...names });
  return result;
};
