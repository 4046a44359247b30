// The route that explains one event.
import { orUnavailable } from "../../../../infra/http/problem.ts";
import { eventView, explainedEvents } from "../../../../modules/money/explain/event-view.ts";
import { explainEvent } from "../../contract/sales/explain.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

const away = orUnavailable("events cannot be read now", 2);

export const routes = ({ clickhouse, pool }: Pick<ApiPorts, "clickhouse" | "pool">): readonly Route[] => [
  route(explainEvent, async ({ read, params: { event_id }, query: { client_id } }) => {
    const visible = await read(async (_tx, { clients }) => clients);
    const clients = client_id === undefined ? visible : visible.filter((id) => id === client_id);
    const explained = await explainedEvents({ clickhouse, pool }, event_id, clients).catch(away);
    return { body: await eventView(read, explained) };
  }),
];
