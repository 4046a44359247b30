// The reads of the platform API that are measured, and how one is sent and timed.
import type { ServedRoute } from "../../apps/api/route.ts";
import { routesOf } from "../../apps/api/routes.ts";
import { hintsOf, namesIn, pathOf, queryTextFor, type Rows } from "../../tests/support/from-contract.ts";
import { type Kept, type PortalWorld, rule, SELLS } from "./portal-world.ts";

export interface Read {
  readonly route: ServedRoute;
  readonly name: string;
  readonly path: string;
}
const dayBefore = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
const YEAR = `from=${dayBefore(360)}&to=${dayBefore(0)}`;

/** Every read that has data in this history, over its default of 30 days and over a year. */
export const readsOf = async ({ clientId, partners, campaigns, ...kept }: Kept): Promise<readonly Read[]> => {
  const rows: Rows = {
    ...{ client: clientId, partner: partners[SELLS]!, campaign: campaigns[SELLS]! },
    ids: { orders: kept.order, events: kept.event, rules: String(kept.rule) },
  };
  return (await routesOf({} as never))
    .filter(({ method, auth }) => method === "GET" && auth === "user")
    .flatMap((route) => {
      const path = pathOf(route, rows);
      const query = queryTextFor(route.contract.query, hintsOf(rows));
      if (path === undefined || query === undefined) return [];
      const read = (name: string, ...queries: readonly string[]): Read => {
        const all = queries.filter((one) => one !== "").join("&");
        return { route, name, path: all === "" ? path : `${path}?${all}` };
      };
      const { route: name } = route.contract;
      const isRanged = namesIn(route.contract.query).includes("from");
      return [read(name, query), ...(isRanged ? [read(`${name}, a year`, query, YEAR)] : [])];
    });
};

/** Purchases of one country, one of 250 events, over the thirty days of a trial. */
export const trial = ({ kept, users }: PortalWorld) => {
  const { token } = users.find(({ role }) => role === "admin")!;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ client_id: kept.clientId, rule: rule(kept.partners[SELLS]!) });
  return {
    ...{ name: "POST /api/rules/simulate, 30 days", path: "/api/rules/simulate" },
    init: { method: "POST", headers, body },
  };
};

/** Milliseconds, and counts of answers other than 200 by status. */
export interface Measured {
  readonly ms: number[];
  readonly others: Record<string, number>;
}
export type ByName = Map<string, Measured>;

/** Sends one request and waits for the whole answer. */
export const ask = async (measured: ByName, name: string, url: string, init: RequestInit): Promise<void> => {
  const began = performance.now();
  const answer = await fetch(url, init);
  await answer.arrayBuffer();
  const known = measured.get(name) ?? { ms: [], others: {} };
  measured.set(name, known);
  known.ms.push(performance.now() - began);
  if (answer.status !== 200) known.others[answer.status] = (known.others[answer.status] ?? 0) + 1;
};
