// The route of the planned and actual commissions of a partner in a month.
import { refuseOtherPartner } from "../../../../modules/catalog/partners/partner-detail.ts";
import { segmentBudgets } from "../../../../modules/catalog/planner/segment-budgets.ts";
import { readSegmentBudgets } from "../../contract/partners/segment-budgets.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "clickhouse" | "positions">): readonly Route[] => [
  route(readSegmentBudgets, async (ask) => {
    const { params, query, user } = ask;
    await checkFilter(ask, query.client_id);
    refuseOtherPartner(user, params.id);
    const wanted = { ...query, partner_id: params.id, isApprovedOnly: user.role === "partner" };
    return { body: await segmentBudgets(ports, ask.read, wanted) };
  }),
];
