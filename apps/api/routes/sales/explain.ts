// The route that explains one event.
import { eventView } from "../../../../modules/money/explain/event-view.ts";
import { explainEvent } from "../../contract/sales/explain.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (stores: Pick<ApiPorts, "clickhouse" | "pool">): readonly Route[] => [
  route(explainEvent, async ({ read, params, query }) => ({
    body: await eventView(stores, read, { ...params, ...query }),
  })),
];
