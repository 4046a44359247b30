// The routes of decisions about sales: credit, the end of a fraud review, and refunds.
import type { Work } from "../../../../modules/base/work.ts";
import { assignSale } from "../../../../modules/money/decisions/assign.ts";
import { attributeEach, namedByItems } from "../../../../modules/money/decisions/attribute-each.ts";
import { findSales, type SaleMatch, type SaleNames } from "../../../../modules/money/decisions/find-sales.ts";
import { type FollowSettings, followDecisions } from "../../../../modules/money/decisions/follow.ts";
import { isRelease, namedByReattribution, reattributeSales } from "../../../../modules/money/decisions/reattribute.ts";
import type { DecidedSales, DecisionOutcome } from "../../../../modules/money/decisions/record-decisions.ts";
import { refundSale } from "../../../../modules/money/decisions/refund.ts";
import * as contracts from "../../contract/sales/decisions.ts";
import { away } from "../../request/checked-request.ts";
import { firstAnswer } from "../../request/write.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "pool" | "decide">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.assignSale, (ask) => {
    const input = { ...ask.body, actor: actorOf(ask) };
    return decided(ports, ask, {
      names: { client_id: input.client_id, named: [input] },
      useCase: (work) => assignSale(work, ports, input),
      settings: { assignedTo: () => input.partner_id },
    });
  }),

  route(contracts.reattributeSale, (ask) => {
    const input = { ...ask.body, actor: actorOf(ask) };
    const { event_ids = [] } = input;
    return decided(ports, ask, {
      names: namedByReattribution(input),
      useCase: (work) => reattributeSales(work, ports, input),
      settings: { isRelease: isRelease(input) },
      ...(event_ids.length > 1 && {
        bodyOf: (outcomes) => ({ items: outcomes.map((one, n) => ({ ...one, event_id: event_ids[n] })) }),
      }),
    });
  }),

  route(contracts.bulkAttribute, (ask) => {
    const input = { ...ask.body, actor: actorOf(ask) };
    return decided(ports, ask, {
      names: namedByItems(input),
      useCase: (work) => attributeEach(work, ports, input),
      settings: { assignedTo: (n) => input.items[n]!.partner_id, isEach: true },
      bodyOf: (results) => ({ results }),
    });
  }),

  route(contracts.refundSale, (ask) => {
    const input = { ...ask.body, actor: actorOf(ask) };
    return decided(ports, ask, {
      names: { client_id: input.client_id, named: [input] },
      useCase: (work) => refundSale(work, ports, input),
      settings: {},
    });
  }),
];

const actorOf = ({ user }: Pick<Ask, "user">): string => `user:${user.user_id}`;

interface Decision {
  /** The sales that the request names; a repeat of the request searches for them again. */
  readonly names: SaleNames;
  readonly useCase: (work: Work) => Promise<DecidedSales>;
  readonly settings: FollowSettings;
  /** Makes the body from all outcomes; undefined: the body is the only outcome. */
  readonly bodyOf?: (outcomes: readonly DecisionOutcome[]) => object;
}

/** A repeat of the request gets the state that its decisions have by then. */
const decided = async (
  { pool, clickhouse }: Ports,
  { read, write }: Pick<Ask, "read" | "write">,
  { names, useCase, settings, bodyOf = ([outcome]) => outcome! }: Decision,
): Promise<Reply> => {
  let sales: readonly SaleMatch[] | undefined;
  const reply = await write(useCase, (made) => {
    sales = made.sales;
    return { body: bodyOf(made.outcomes) };
  });
  const body = firstAnswer<any>(reply);
  const outcomes: readonly DecisionOutcome[] = body.items ?? body.results ?? [body];
  if (outcomes.every((one) => one.status !== "accepted")) return { status: reply.status!, body };
  sales ??= await read((tx, scope) => findSales(clickhouse, { tx, scope }, names));
  const settled = await followDecisions(pool, { outcomes, sales }, settings).catch(away);
  return { status: reply.status!, body: bodyOf(settled) };
};
