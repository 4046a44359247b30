// The sales that a request names: an order, or an event of one, of those clients that the caller
// sees.
import { orderIdOf } from "../../../domain/order-id.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { orUnavailable, Problem } from "../../../infra/http/problem.ts";
import { type Creditable, creditable, creditRefused } from "../../../modules/money/orders/creditable.ts";
import { linesOf, memoryKeyOf, type Subject } from "../../../modules/money/orders/decide.ts";
import { linesOfEvents } from "../../../modules/money/orders/line-of-event.ts";
import { rememberedOrders, versionOf } from "../../../modules/money/orders/remembered.ts";
import type { Line, OrderState } from "../../../processors/settle/order.ts";
import { fault, notFound } from "../request/accept.ts";
import type { Work } from "../route.ts";

export interface Sale {
  readonly client_id: number;
  readonly subject: Subject;
  /** Those that it is about: at least one. */
  readonly lines: readonly Line[];
  readonly order: OrderState;
}
/** undefined: nothing that the caller sees; several: more than one client has it. */
export type FoundSale = Sale | "several" | undefined;

export interface Named {
  readonly event_id?: string | undefined;
  readonly order_id?: string | undefined;
  readonly product_id?: string | undefined;
}
export type Seen = Pick<Work, "tx" | "scope">;

export const decisionsAway = orUnavailable("decisions cannot be made now", 2);

/** `placeOf`: where the n-th stands in the body, e.g. "/items/3". */
export interface Asked {
  readonly client_id: number | undefined;
  readonly named: readonly Named[];
  readonly placeOf?: (n: number) => string;
}

/** What each names, in their order. Throws Problem 400 for one that names both or none. */
export const salesOf = async (
  clickhouse: Clickhouse,
  { tx, scope }: Seen,
  { client_id: clientId, named, placeOf = () => "" }: Asked,
): Promise<readonly FoundSale[]> => {
  for (const [n, { event_id, order_id }] of named.entries())
    if ((event_id === undefined) === (order_id === undefined))
      throw fault(`${placeOf(n)}/order_id`, "one_of", "name an order, or an event of it: one of both");
  const clients = scope.clients.filter((id) => clientId === undefined || id === clientId);
  const eventIds = named.flatMap(({ event_id }) => event_id ?? []);
  const found = await linesOfEvents({ clickhouse, tx }, clients, eventIds).catch(decisionsAway);
  const ofEvents = found.values();
  const meant = named.map(({ order_id, product_id }): readonly Pick<Sale, "client_id" | "subject">[] =>
    order_id === undefined
      ? ofEvents.next().value!.map(({ client_id, ...line }) => ({ client_id, subject: { line } }))
      : clients.map((client_id) => ({ client_id, subject: { order_id: orderIdOf(order_id), product_id } })),
  );
  const orders = await rememberedOrders(tx, [...new Set(meant.flat().map(memoryKeyOf))]);
  return meant.map((some) => {
    const sales = some.flatMap((one): readonly Sale[] => {
      const order = orders.get(memoryKeyOf(one));
      const lines = order === undefined ? [] : linesOf(one.subject, order.lines);
      return lines.length === 0 ? [] : [{ ...one, lines, order: order! }];
    });
    return sales.length > 1 ? "several" : sales[0];
  });
};

/** Throws Problem 404 for what is not there, 400 where several clients have it. */
export const only = (sale: FoundSale): Sale => {
  if (sale === "several") throw fault("/client_id", "client_id_required", "several clients have that: name one");
  if (sale === undefined) throw notFound();
  return sale;
};

/** Throws Problem 409. */
export const alreadyCredited = (): Problem =>
  new Problem("conflict", "a partner is credited: reattribute it", { code: "already_credited" });

/** Throws Problem 409. */
export const noReview = (): Problem =>
  new Problem("conflict", "no fraud review of it is open: it has ended, or there was none", { code: "no_review" });

/** Of each line a name of its own: two sales that share one are about the same. */
export const lineNames = (sale: Sale): readonly string[] =>
  sale.lines.map(({ event_id }) => `${memoryKeyOf(sale)} ${event_id}`);

export const newestVersion = (lines: readonly Line[]): number => Math.max(...lines.map(versionOf));

export const archived = (what: "client" | "partner"): Problem =>
  new Problem("conflict", `the ${what} is archived`, { code: `${what}_archived` });

type Credited = Parameters<typeof creditable>[2];

/** Throws Problem 400 and 409 for what may not be credited for sales of the client. */
export const checkCredit = async (work: Seen, clientId: number, named: Credited): Promise<void> => {
  const found = await creditable(work.tx, clientId, named);
  if (found.client === "archived") throw archived("client");
  if (named.partner_id === null) return;
  const code = creditRefused(found, named.campaign_id);
  if (code === "partner_archived") throw archived("partner");
  if (code === "partner_not_of_client") throw fault("/partner_id", code, "this partner does not work for the client");
  if (code !== undefined) throw fault("/campaign_id", code, "this campaign is not one of the client");
};

/** As `creditable`; each pair is asked for once. */
export const creditables = (work: Seen, clientId: number): ((named: Credited) => Promise<Creditable>) => {
  const known = new Map<string, Promise<Creditable>>();
  return (named) => {
    const key = `${named.partner_id} ${named.campaign_id}`;
    const found = known.get(key) ?? creditable(work.tx, clientId, named);
    known.set(key, found);
    return found;
  };
};
