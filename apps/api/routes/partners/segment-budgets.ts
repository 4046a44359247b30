// The route of what is planned for a partner in a month, and what came of it.
import { monthOf } from "../../../../domain/calendar.ts";
import { toDecimal } from "../../../../domain/money.ts";
import { readPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import { lineFigures } from "../../../../modules/catalog/planner/plan-figures.ts";
import { linesOfPartner } from "../../../../modules/catalog/planner/plans.ts";
import { readSegmentBudgets } from "../../contract/partners/segment-budgets.ts";
import { shownFigures } from "../../planner/shown.ts";
import { notFound } from "../../request/accept.ts";
import { daysOfMonth, frameOf, stampFor } from "../../request/figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "clickhouse" | "positions">): readonly Route[] => [
  route(readSegmentBudgets, async (ask) => {
    const { params, query, role, user } = ask;
    await checkFilter(ask, query.client_id);
    const today = monthOf(Date.now());
    const month = { year: query.year ?? today.year, month: query.month ?? today.month };
    const frame = await frameOf(ports, daysOfMonth(month));
    const { clients, data } = await ask.read(async (tx, scope) => {
      // Partners of one client see rows of each other by their tenant alone.
      if (role === "partner" && user.partner_id !== params.id) throw notFound();
      const found = await readPartner(tx, params.id, scope.clients, []);
      if (found === undefined) throw notFound();
      const own = found.state.known_to.filter((id) => scope.clients.includes(id));
      const some = query.client_id === undefined ? own : own.filter((id) => id === query.client_id);
      if (some.length === 0) throw notFound();
      const all = await linesOfPartner(tx, params.id, some, month);
      const lines = role === "partner" ? all.filter(({ status }) => status === "approved") : all;
      const figures = await lineFigures(tx, lines, month, frame.asOf ?? frame.now);
      return {
        clients: some,
        data: lines.map(({ client_id, segment, budget_minor, currency, target_conversions, status, rate }, n) => ({
          ...{ client_id, segment, budget: toDecimal(budget_minor, currency), currency, target_conversions },
          ...shownFigures(currency, figures.lines[n]!),
          ...{ plan_status: status, rate },
        })),
      };
    });
    return { body: { ...(await stampFor(ports, frame, clients)), ...month, data } };
  }),
];
