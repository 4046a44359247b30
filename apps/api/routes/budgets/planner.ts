// The routes of month plans: planned commissions of a client by partner and segment.
import type { Work } from "../../../../modules/base/work.ts";
import { daysOfMonth } from "../../../../modules/catalog/budgets/pace.ts";
import { approvePlan } from "../../../../modules/catalog/planner/approve.ts";
import { readMonthPlan } from "../../../../modules/catalog/planner/month-plan.ts";
import type { PlanResult } from "../../../../modules/catalog/planner/open-plan.ts";
import type { PlanKey } from "../../../../modules/catalog/planner/plan.ts";
import { reopenPlan } from "../../../../modules/catalog/planner/reopen.ts";
import { savePlan } from "../../../../modules/catalog/planner/save.ts";
import { shownChanges, shownPlan } from "../../../../modules/catalog/planner/shown-plan.ts";
import { frameOf, stampFor } from "../../../../modules/figures/dashboards/frame.ts";
import * as contracts from "../../contract/budgets/planner.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "clickhouse" | "positions">): readonly Route[] => [
  route(contracts.readPlanner, async ({ read, query: key }) => {
    const frame = await frameOf(ports, daysOfMonth(key));
    const { now, asOf: at = now } = frame;
    const plan = await read((tx, { clients }) => readMonthPlan(tx, key, clients, { at, now }));
    return { body: { ...(await stampFor(ports, frame, [key.client_id])), ...plan } };
  }),

  route(contracts.savePlan, ({ write, body, version }) => {
    const { lines } = body;
    const key = keyOf(body);
    return write(
      (work) => savePlan(work, { key, lines, version }),
      async (result, work) => ({ body: await answerOf(work, key, result) }),
    );
  }),

  route(contracts.approvePlan, ({ write, body, user, version }) => {
    const key = keyOf(body);
    return write(
      (work) => approvePlan(work, { key, approver: user.name, version }),
      async (result, work) => {
        const answer = await answerOf(work, key, result);
        return { body: { ...answer, changes: shownChanges(answer.currency, result.changes) } };
      },
    );
  }),

  route(contracts.reopenPlan, ({ write, body, user, version }) => {
    const { reason } = body;
    const key = keyOf(body);
    return write(
      (work) => reopenPlan(work, { key, reason, opener: user.name, version }),
      async (result, work) => ({ body: await answerOf(work, key, result) }),
    );
  }),
];

const keyOf = ({ client_id, year, month }: PlanKey): PlanKey => ({ client_id, year, month });

const answerOf = ({ tx, now }: Pick<Work, "tx" | "now">, key: PlanKey, { plan, currency }: PlanResult) =>
  shownPlan(tx, key, plan, { currency, at: now, now });
