// Sets what a plan lets a client send in a day. Every edge that refuses such a client acts by it
// within two seconds (quotas.ts).
import { sql } from "../../../infra/postgres/sql.ts";
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { type QuotaPlan, readPlans } from "./usage.ts";

export interface NewPlan {
  /** The plan is not there yet. Without it a name that is mistyped would make one. */
  readonly isNew?: boolean;
}

export type PlanChange = Pick<QuotaPlan, "plan"> & Partial<QuotaPlan>;

const BOUNDS = { events_a_day: 1e12, bytes_a_day: 1e15, burst_hours: 24 } as const;
const LONGEST_NAME = 40;

const checkName = (change: PlanChange, plans: readonly QuotaPlan[], isNew: boolean): void => {
  const isThere = plans.some(({ plan }) => plan === change.plan);
  if (isThere === !isNew) return;
  if (isThere) throw invalid("/plan", "already_there", `the plan ${change.plan} is there already: leave --new out`);
  const names = plans.map(({ plan }) => plan).join(", ");
  throw invalid("/plan", "unknown_plan", `no plan has this name; give --new to make it. The plans are ${names}`);
};

/**
 * What is not given stays, or is that of `standard` for a new plan. Throws RefusalError: invalid
 * names the field.
 */
export const setPlan = async (work: Work, change: PlanChange, { isNew = false }: NewPlan = {}): Promise<QuotaPlan> => {
  const { tx } = work;
  const plans = await readPlans(tx);
  checkName(change, plans, isNew);
  const before = plans.find(({ plan }) => plan === change.plan);
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  const after: QuotaPlan = {
    ...(before ?? plans.find(({ plan }) => plan === "standard")!),
    ...Object.fromEntries(given),
  };
  if (!/^[^\p{Cc}]+$/u.test(after.plan) || after.plan.length > LONGEST_NAME)
    throw invalid("/plan", "out_of_range", `a name of 1 to ${LONGEST_NAME} characters`);
  for (const [name, most] of Object.entries(BOUNDS)) {
    const value = after[name as keyof typeof BOUNDS];
    if (!Number.isSafeInteger(value) || value < 1 || value > most)
      throw invalid(`/${name}`, "out_of_range", `a whole number from 1 to ${most}`);
  }
  const { plan, events_a_day, bytes_a_day, burst_hours } = after;
  await tx.query("set local role tributary_keeper");
  await tx.query(sql`
    insert into intake_plans values (${plan}, ${events_a_day}, ${bytes_a_day}, ${burst_hours})
    on conflict (plan) do update set events_a_day = excluded.events_a_day, bytes_a_day = excluded.bytes_a_day,
      burst_hours = excluded.burst_hours`);
  await tx.query("set local role none");
  await work.audit({ action: "quota.set", client_id: null, entity: `plan:${plan}`, before, after });
  return after;
};
