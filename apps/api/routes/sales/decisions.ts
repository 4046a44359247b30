// The routes that decide about sales: who is credited, how a fraud review ends, what is given back.
import { Problem } from "../../../../infra/http/problem.ts";
import { creditRefused } from "../../../../modules/money/orders/creditable.ts";
import type { Credited, Refunded } from "../../../../modules/money/orders/decide.ts";
import { settledOf } from "../../../../modules/money/orders/order-lines.ts";
import { refundable } from "../../../../modules/money/orders/refundable.ts";
import { assignSale, bulkAttribute, reattributeSale, refundSale } from "../../contract/sales/decisions.ts";
import { fault, notFound } from "../../request/accept.ts";
import { type Ask, type Route, route, type Work } from "../../route.ts";
import { type DecisionPorts, decideReply, type Made, outcomeOf, put } from "../../sales/decide-reply.ts";
import {
  alreadyCredited,
  archived,
  checkCredit,
  creditables,
  decisionsAway,
  type FoundSale,
  lineNames,
  newestVersion,
  noReview,
  only,
  type Sale,
  salesOf,
} from "../../sales/named-sales.ts";

const actorOf = ({ user_id }: { readonly user_id: number }): string => `user:${user_id}`;

export const routes = (ports: DecisionPorts): readonly Route[] => {
  const { clickhouse } = ports;
  return [
    route(assignSale, (ask) =>
      decideReply(ports, ask, {
        find: (seen) => salesOf(clickhouse, seen, { client_id: ask.body.client_id, named: [ask.body] }),
        decide: (work, [sale]) => assign(ports, ask, work, only(sale)),
        assignedTo: () => ask.body.partner_id,
      }),
    ),
    route(reattributeSale, (ask) =>
      decideReply(ports, ask, {
        find: (seen) => salesOf(clickhouse, seen, { client_id: ask.body.client_id, named: namedIn(ask.body) }),
        decide: (work, sales) => reattribute(ports, ask, work, sales.map(only)),
        isRelease: isRelease(ask.body),
      }),
    ),
    route(bulkAttribute, (ask) =>
      decideReply(ports, ask, {
        find: (seen) => salesOf(clickhouse, seen, eachOf(ask.body)),
        decide: (work, sales) => attributeEach(ports, ask, work, sales),
        assignedTo: (n) => ask.body.items[n]!.partner_id,
      }),
    ),
    route(refundSale, (ask) =>
      decideReply(ports, ask, {
        find: (seen) => salesOf(clickhouse, seen, { client_id: ask.body.client_id, named: [ask.body] }),
        decide: (work, [sale]) => refund(ports, ask, work, only(sale)),
      }),
    ),
  ];
};

const assign = async (
  ports: DecisionPorts,
  { body, user }: Pick<Ask<typeof assignSale>, "body" | "user">,
  work: Work,
  { client_id, subject, lines }: Sale,
): Promise<object> => {
  const { partner_id, campaign_id = null, reason } = body;
  await checkCredit(work, client_id, { partner_id, campaign_id });
  const isHeld = lines.every((line) => line.partner_id !== null);
  if (isHeld && lines.some((line) => line.partner_id !== partner_id)) throw alreadyCredited();
  const said = { partner_id, campaign_id, reason, actor: actorOf(user), at: Date.now() };
  const decided: Credited = { ...said, decision_id: work.idOf(0), client_id, subject, kind: "assign" };
  await put(ports, work, [{ decided, lines }]);
  return outcomeOf(decided.decision_id, lines);
};

type Reattribution = Ask<typeof reattributeSale>["body"];

const namedIn = ({ event_ids, order_id }: Reattribution) =>
  event_ids === undefined ? [{ order_id }] : event_ids.map((event_id) => ({ event_id, order_id }));

/** Two events of one line are decided about once, and both are answered by that decision. */
const reattribute = async (
  ports: DecisionPorts,
  { body, user }: Pick<Ask<typeof reattributeSale>, "body" | "user">,
  work: Work,
  sales: readonly Sale[],
): Promise<object> => {
  const { partner_id = null, campaign_id = null, reason, review, event_ids } = body;
  if (partner_id === null && review === undefined)
    throw fault("/partner_id", "required", "name a partner, or how the review ends");
  if (partner_id === null && campaign_id !== null)
    throw fault("/partner_id", "required", "a campaign is credited with its partner");
  for (const client_id of new Set(sales.map((sale) => sale.client_id)))
    await checkCredit(work, client_id, { partner_id, campaign_id });
  const said = { reason, actor: actorOf(user), at: Date.now() };
  const made: Made[] = [];
  const decisions = new Map<string, readonly Credited[]>();
  for (const [n, sale] of sales.entries()) {
    if (decisions.has(nameOf(sale))) continue;
    const of = { ...said, client_id: sale.client_id, subject: sale.subject };
    const [none, credit] = [
      { partner_id: null, campaign_id: null },
      { partner_id, campaign_id },
    ];
    const ended: readonly Credited[] =
      review === undefined ? [] : [{ ...of, ...none, decision_id: work.idOf(n * 2), kind: review }];
    const moved: readonly Credited[] =
      partner_id === null ? [] : [{ ...of, ...credit, decision_id: work.idOf(n * 2 + 1), kind: "reattribute" }];
    decisions.set(nameOf(sale), [...ended, ...moved]);
    made.push(...[...ended, ...moved].map((decided) => ({ decided, lines: sale.lines })));
  }
  if (isRelease(body)) await refuseEnded(ports, made);
  await put(ports, work, made);
  // The last decision of a sale is what the others lead to.
  const outcomes = sales.map((sale) => outcomeOf(decisions.get(nameOf(sale))!.at(-1)!.decision_id, sale.lines));
  if (event_ids === undefined || event_ids.length === 1) return outcomes[0]!;
  return { items: outcomes.map((one, n) => ({ ...one, event_id: event_ids[n]! })) };
};

const isRelease = ({ review, partner_id }: Reattribution): boolean => review === "release" && partner_id === undefined;

/** Unless these decisions ended it in an earlier attempt of the request. Throws Problem 409. */
const refuseEnded = async ({ pool }: DecisionPorts, made: readonly Made[]): Promise<void> => {
  if (made.some(({ lines }) => lines.some(({ review }) => review !== null))) return;
  const before = await settledOf(
    pool,
    made.map(({ decided }) => decided.decision_id),
  ).catch(decisionsAway);
  if (![...before.values()].some(({ hasChanged }) => hasChanged)) throw noReview();
};

const nameOf = (sale: Sale): string => lineNames(sale).join("\n");

const eachOf = ({ client_id, items }: Ask<typeof bulkAttribute>["body"]) => ({
  ...{ client_id, named: items, placeOf: (n: number) => `/items/${n}` },
});

type Attribution = Ask<typeof bulkAttribute>["body"]["items"][number];

const attributeEach = async (
  ports: DecisionPorts,
  { body, user }: Pick<Ask<typeof bulkAttribute>, "body" | "user">,
  work: Work,
  sales: readonly FoundSale[],
): Promise<object> => {
  const { client_id, items, reason } = body;
  const creditableFor = creditables(work, client_id);
  const { client } = await creditableFor({ partner_id: null, campaign_id: null });
  if (client === undefined || !work.scope.clients.includes(client_id)) throw notFound();
  if (client === "archived") throw archived("client");
  const said = { reason, actor: actorOf(user), at: Date.now(), client_id };
  const taken = new Set<string>();
  const made: Made[] = [];
  const answered = async (index: number, item: Attribution): Promise<object> => {
    const { partner_id, campaign_id = null } = item;
    const of = { index, code: null, decision_id: null, version: null };
    const sale = sales[index];
    if (sale === undefined || sale === "several") return { ...of, status: "rejected", code: "not_found" };
    const names = lineNames(sale);
    if (names.some((name) => taken.has(name))) return { ...of, status: "rejected", code: "duplicate_item" };
    for (const name of names) taken.add(name);
    const code = creditRefused(await creditableFor({ partner_id, campaign_id }), campaign_id);
    if (code !== undefined) return { ...of, status: "rejected", code };
    const { lines, subject } = sale;
    const version = newestVersion(lines);
    if (lines.every((line) => line.partner_id === partner_id)) return { ...of, status: "unchanged", version };
    const kind = lines.every((line) => line.partner_id === null) ? "assign" : "reattribute";
    const decision_id = work.idOf(index);
    made.push({ decided: { ...said, partner_id, campaign_id, decision_id, subject, kind }, lines });
    return { ...of, status: "accepted", decision_id, version };
  };
  const results: object[] = [];
  for (const [index, item] of items.entries()) results.push(await answered(index, item));
  await put(ports, work, made, "sale.bulk_attributed");
  return { results };
};

const refund = async (
  ports: DecisionPorts,
  { body, user }: Pick<Ask<typeof refundSale>, "body" | "user">,
  work: Work,
  { client_id, subject, lines, order }: Sale,
): Promise<object> => {
  if (body.event_id !== undefined && body.product_id !== undefined)
    throw fault("/product_id", "one_of", "an event says by itself which line it is of");
  await checkCredit(work, client_id, { partner_id: null, campaign_id: null });
  const { reason, cause, refund_id = null } = body;
  const decision_id = work.idOf(0);
  const { amount: asked, currency } = body;
  const amount = amountOf({ lines, refunds: order.refunds }, { decision_id, amount: asked, currency });
  const said = { reason, actor: actorOf(user), at: Date.now(), client_id, subject };
  const decided: Refunded = { ...said, decision_id, kind: "refund", amount, cause, refund_id };
  await put(ports, work, [{ decided, lines }]);
  return outcomeOf(decision_id, lines);
};

/** Throws Problem 400 and 409 for what cannot be given back. */
const amountOf = (...given: Parameters<typeof refundable>): Refunded["amount"] => {
  const answer = refundable(...given);
  if (answer.kind === "ok") return answer.amount;
  const { field, code, detail } = answer;
  throw field === null ? new Problem("conflict", detail, { code }) : fault(`/${field}`, code, detail);
};
