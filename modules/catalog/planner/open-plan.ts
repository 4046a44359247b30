// Opens the plan that a use case changes, and writes its next step.
import { conflict, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { monthText } from "../budgets/pace.ts";
import { openClient } from "../clients/open-client.ts";
import type { Changes } from "./changes.ts";
import type { Plan, PlanKey } from "./plan.ts";
import { addStep, readPlan } from "./plans.ts";
import { shownLine } from "./shown-plan.ts";

export interface OpenPlan {
  readonly key: PlanKey;
  readonly before: Plan;
  readonly client: { readonly name: string; readonly currency: string };
}
/** A plan after its step. */
export interface PlanResult {
  readonly plan: Plan;
  /** The currency of the plan, or of the client if the plan has none. */
  readonly currency: string;
  readonly changes: Changes;
}

/**
 * Returns the plan and locks reference data until the commit. Throws RefusalError: missing,
 * `client_archived`.
 */
export const openPlan = async (work: Work, key: PlanKey): Promise<OpenPlan> => {
  const { name, currency } = await openClient(work, key.client_id, ["name", "currency"]);
  return { key, before: await readPlan(work.tx, key), client: { name, currency } };
};

export const invalidStep = (from: Plan["status"], to: Plan["status"]): RefusalError =>
  conflict("invalid_transition", `a plan that is ${from} does not become ${to}`, {
    details: { from, to, allowed: [from === "draft" ? "approved" : "draft"] },
  });

interface PlanStep {
  readonly action: "planner.saved" | "planner.approved" | "planner.reopened";
  readonly after: Plan;
  readonly changes: Changes;
  readonly reason?: string | undefined;
}

/** Writes the step and its audit row. */
export const takeStep = async (
  { tx, act, audit }: Work,
  { key, before, client }: OpenPlan,
  { action, after, changes, reason }: PlanStep,
): Promise<PlanResult> => {
  const { version, status, currency = client.currency } = after;
  const given = reason === undefined ? {} : { reason };
  await addStep(tx, key, before, { version, status, currency, actor: act.actor, changes, ...given });
  const stateOf = (plan: Plan) => ({
    ...{ version: plan.version, status: plan.status, currency: plan.currency ?? null },
    lines: plan.lines.map((line) => shownLine(plan.currency ?? currency, line)),
  });
  await audit({
    ...{ action, client_id: key.client_id, entity: `planner:${key.client_id}/${monthText(key)}` },
    before: before.version === 0 ? undefined : stateOf(before),
    after: { ...stateOf(after), ...given },
  });
  return { plan: after, currency, changes };
};
