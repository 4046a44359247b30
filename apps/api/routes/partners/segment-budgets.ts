// The route of what is planned for a partner in a month, and what came of it.
import { monthOf } from "../../../../domain/calendar.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import { readSegmentBudgets as readBudgets } from "../../../../modules/catalog/planner/segment-budgets.ts";
import { readSegmentBudgets } from "../../contract/partners/segment-budgets.ts";
import { daysOfMonth, frameOf, stampFor } from "../../request/figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "clickhouse" | "positions">): readonly Route[] => [
  route(readSegmentBudgets, async (ask) => {
    const { params, query, role, user } = ask;
    await checkFilter(ask, query.client_id);
    // Partners of one client see rows of each other by their tenant alone.
    if (role === "partner" && user.partner_id !== params.id) throw missing();
    const today = monthOf(Date.now());
    const month = { year: query.year ?? today.year, month: query.month ?? today.month };
    const frame = await frameOf(ports, daysOfMonth(month));
    const wanted = { partner_id: params.id, client_id: query.client_id, month, isApprovedOnly: role === "partner" };
    const { clients, data } = await ask.read((tx, scope) =>
      readBudgets(tx, scope.clients, { ...wanted, at: frame.asOf ?? frame.now }),
    );
    return { body: { ...(await stampFor(ports, frame, clients)), ...month, data } };
  }),
];
