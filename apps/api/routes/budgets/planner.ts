// The routes of plans: what a client is to spend on commissions in a month, by partner and segment.
import { monthsAfter } from "../../../../domain/calendar.ts";
import { toDecimal } from "../../../../domain/money.ts";
import { Problem } from "../../../../infra/http/problem.ts";
import { readBudget, spentOf } from "../../../../modules/catalog/budgets/budgets.ts";
import { firstDayOf, paceOf } from "../../../../modules/catalog/budgets/pace.ts";
import { partnersAt } from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { type Changes, changesBetween } from "../../../../modules/catalog/planner/changes.ts";
import {
  addLines,
  addStep,
  approvedLines,
  historyOf,
  type Plan,
  type PlanKey,
  readPlan,
} from "../../../../modules/catalog/planner/plans.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { checkOpen } from "../../campaigns/budgets.ts";
import * as contracts from "../../contract/budgets/planner.ts";
import { followMove, monthText } from "../../planner/announced.ts";
import { checkLines, checkMonth, checkRates } from "../../planner/checks.ts";
import { shownChanges, shownLine, shownPlan, suggestedLines } from "../../planner/shown.ts";
import { notFound } from "../../request/accept.ts";
import { daysOfMonth, frameOf, stampFor } from "../../request/figures.ts";
import { type ApiPorts, type Ask, type Route, route, type Work } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "positions">;
type Tx = Work["tx"];

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readPlanner, (ask) => shown(ports, ask)),
  route(contracts.savePlan, (ask) => ask.write((work) => saved(work, ask))),
  route(contracts.approvePlan, (ask) => ask.write((work) => approved(work, ask))),
  route(contracts.reopenPlan, (ask) => ask.write((work) => reopened(work, ask))),
];

const shown = async (ports: Ports, { read, query: key }: Ask<typeof contracts.readPlanner>) => {
  const frame = await frameOf(ports, daysOfMonth(key));
  const { now, asOf: at = now } = frame;
  const body = await read(async (tx, { clients }) => {
    const found = await readClient(tx, key.client_id, clients, ["currency"]);
    if (found === undefined) throw notFound();
    const { currency } = found.shown;
    const plan = await readPlan(tx, key);
    return {
      ...(await shownPlan(tx, key, plan, { currency, at, now })),
      relo_budget: await budgetOf(tx, key, clients, at),
      suggestions: plan.version === 0 ? await suggestions(tx, key, currency) : [],
      history: await historyOf(tx, key),
    };
  });
  return { body: { ...(await stampFor(ports, frame, [key.client_id])), ...body } };
};

/** What the client wants to spend in the month on all of its segments. */
const budgetOf = async (tx: Tx, key: PlanKey, clients: readonly number[], at: UnixMs) => {
  const names = ["year", "month", "segment", "amount", "currency"];
  const budget = await readBudget(tx, { ...key, segment: null }, clients, names);
  if (budget === undefined) return null;
  const { amount, currency } = budget;
  const [spent] = await spentOf(tx, key.client_id, [budget]);
  const { share, forecast_minor } = paceOf(key, spent!, amount, at);
  const shownAs = (minor: bigint) => toDecimal(minor, currency);
  return {
    ...{ amount: shownAs(amount), currency, spent: shownAs(spent!), share },
    forecast: forecast_minor === null ? null : shownAs(forecast_minor),
  };
};

/** Lines of the month before whose partners still work for the client, in the currency of today. */
const suggestions = async (tx: Tx, { client_id, ...month }: PlanKey, currency: string) => {
  const [year, before] = monthsAfter(firstDayOf(month), -1).split("-").map(Number);
  const { lines, currency: then } = await readPlan(tx, { client_id, year: year!, month: before! });
  if (then !== currency) return [];
  const partners = lines.map(({ partner_id }) => partner_id);
  const known = await partnersAt(tx, client_id, partners);
  const kept = lines.filter(({ partner_id }) => (known.get(partner_id) ?? "archived") !== "archived");
  return suggestedLines(tx, currency, kept);
};

interface Opened {
  readonly key: PlanKey;
  readonly before: Plan;
  readonly client: { readonly name: string; readonly currency: string };
}
type WriteAsk = Pick<Ask, "checkVersion" | "user"> & { readonly body: PlanKey };

/** The plan, and no other change of it until the commit. Throws Problem 404, 409 of the client. */
const openPlan = async (work: Work, { body }: WriteAsk): Promise<Opened> => {
  const { client_id, year, month } = body;
  const { name, currency } = await openClient(work, client_id, ["name", "currency"]);
  const key = { client_id, year, month };
  const before = await readPlan(work.tx, key);
  return { key, before, client: { name, currency } };
};

const saved = async (work: Work, ask: Ask<typeof contracts.savePlan>) => {
  const opened = await openPlan(work, ask);
  const { key, before, client } = opened;
  checkMonth(key);
  const lines = await checkLines(work, { client_id: key.client_id, currency: client.currency }, ask.body.lines);
  ask.checkVersion(before.version);
  if (before.status === "approved")
    throw new Problem("conflict", "this plan is approved: reopen it first", { code: "plan_approved" });
  checkOpen(firstDayOf(key), "/month");
  const after = { ...before, version: before.version + 1, currency: client.currency, lines };
  await addLines(work.tx, key, after.version, lines);
  return stepped(work, ask, opened, { action: "planner.saved", after, changes: changesBetween(before.lines, lines) });
};

const approved = async (work: Work, ask: Ask<typeof contracts.approvePlan>) => {
  const opened = await openPlan(work, ask);
  const { key, before } = opened;
  ask.checkVersion(before.version);
  if (before.status === "approved") throw notMoved("approved", "approved");
  if (before.lines.length === 0)
    throw new Problem("conflict", "this plan has no lines: save some first", { code: "plan_empty" });
  checkOpen(firstDayOf(key), "/month");
  await checkRates(work, key, before);
  const changes = changesBetween(await approvedLines(work.tx, key), before.lines);
  const after = { ...before, status: "approved" as const };
  const { body } = await stepped(work, ask, opened, { action: "planner.approved", after, changes });
  await follow(work, ask, opened, { after, changes, move: "approved" });
  return { body: { ...body, changes: shownChanges(body.currency, changes) } };
};

const reopened = async (work: Work, ask: Ask<typeof contracts.reopenPlan>) => {
  const opened = await openPlan(work, ask);
  const { key, before } = opened;
  ask.checkVersion(before.version);
  if (before.status !== "approved") throw notMoved("draft", "draft");
  checkOpen(firstDayOf(key), "/month");
  const { reason } = ask.body;
  const after = { ...before, status: "draft" as const, version: before.version + 1 };
  await addLines(work.tx, key, after.version, after.lines);
  const reply = await stepped(work, ask, opened, { action: "planner.reopened", after, changes: [], reason });
  await follow(work, ask, opened, { after, changes: [], move: "reopened", reason });
  return reply;
};

const notMoved = (from: Plan["status"], to: Plan["status"]): Problem =>
  new Problem("conflict", `a plan that is ${from} does not become ${to}`, {
    code: "invalid_transition",
    members: { from, to, allowed: [from === "draft" ? "approved" : "draft"] },
  });

interface Stepping {
  readonly action: string;
  readonly after: Plan;
  readonly changes: Changes;
  readonly reason?: string | undefined;
}

/** Writes the step and its audit row. */
const stepped = async (work: Work, { user }: WriteAsk, { key, before, client }: Opened, stepping: Stepping) => {
  const { action, after, changes, reason } = stepping;
  const { version, status, currency = client.currency } = after;
  const said = reason === undefined ? {} : { reason };
  await addStep(work.tx, key, before, { version, status, currency, actor: user.email, changes, ...said });
  const state = (plan: Plan) => ({
    ...{ version: plan.version, status: plan.status, currency: plan.currency ?? null },
    lines: plan.lines.map((line) => shownLine(plan.currency ?? currency, line)),
  });
  await work.audit({
    ...{ action, client_id: key.client_id, entity: `planner:${key.client_id}/${monthText(key)}` },
    before: before.version === 0 ? undefined : state(before),
    after: { ...state(after), ...said },
  });
  const now = Date.now();
  return { body: await shownPlan(work.tx, key, after, { currency, at: now, now }) };
};

const follow = (
  work: Work,
  { user }: WriteAsk,
  { key, client }: Opened,
  moved: Omit<Stepping, "action"> & { readonly move: "approved" | "reopened" },
): Promise<void> => {
  const { after, changes, move, reason } = moved;
  const { version, lines, currency = client.currency } = after;
  const said = { version, lines, currency, changes, reason };
  return followMove(work, key, { move, ...said, name: client.name, actor: user.name });
};
