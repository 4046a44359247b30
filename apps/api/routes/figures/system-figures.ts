// The routes of the freshness of figures, and of fraud.
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { clientsAsked } from "../../../../modules/base/work.ts";
import { fraudDashboard } from "../../../../modules/figures/dashboards/fraud.ts";
import { freshnessOf } from "../../../../modules/figures/reads/data-freshness.ts";
import { FIGURES_MS, orAway } from "../../../../modules/figures/reads/time-limit.ts";
import { waitingMarks } from "../../../../modules/figures/rollups/rollup-marks.ts";
import { newestEvents } from "../../../../modules/figures/rollups/rollup-reads.ts";
import * as contracts from "../../contract/figures/system-figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "clickhouse" | "positions">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readFreshness, async (ask) => {
    const clients = await ask.read(async (_tx, scope) => clientsAsked(scope, ask.query.client_id));
    const [marks, positions, newest] = await Promise.all([
      waitingMarks(ports.pool).catch(orUnavailable("the marks of rollups cannot be read now", 2)),
      ports.positions.latest(),
      orAway(newestEvents(ports.clickhouse, clients, FIGURES_MS)),
    ]);
    return { body: freshnessOf({ marks, positions, newest, now: Date.now() }) };
  }),

  route(contracts.readFraud, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return { body: await fraudDashboard(ports, ask.read, ask.query) };
  }),
];
