// The routes of monitoring: the health of the stores, the path of events into the log, and incoming
// alerts.
import { Problem, unavailable } from "../../../../infra/http/problem.ts";
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { sharedAnswer } from "../../../../infra/runtime/timing/shared-answer.ts";
import { readAlert } from "../../../../modules/base/alerts/alert.ts";
import { alertRef } from "../../../../modules/base/alerts/kept-alerts.ts";
import { ingestPath, shownPath } from "../../../../modules/intake/path/ingest-path.ts";
import { basicHealth, detailedHealth } from "../../../../modules/running/repair/health.ts";
import { listProbes } from "../../../../modules/running/repair/probe-states.ts";
import { readHealth, readIngestPath, readSystemHealth, sendAlert } from "../../contract/system/system.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** Load balancers ask often, so callers within this time share an answer. */
const CACHED_MS = 2_000;

export const routes = (ports: ApiPorts): readonly Route[] => {
  const health = sharedAnswer(CACHED_MS, () => basicHealth(ports));
  const basic = async () => {
    const body = await health();
    return body.status === "down" ? { status: 503, body, headers: { "Retry-After": "5" } } : { body };
  };
  return [
    route(readHealth, basic, { isUnlimited: true }),

    route(readSystemHealth, async () => {
      const probes = await listProbes(ports.pool).catch(unread("the states of the stores"));
      return { body: detailedHealth(probes, Date.now()) };
    }),

    route(readIngestPath, async () => {
      const path = await ingestPath(ports.pool).catch(unread("the checks of the way into the log"));
      return { body: shownPath(path) };
    }),

    route(sendAlert, async ({ body, sender }) => {
      const read = readAlert(body);
      if ("wrong" in read) throw new Problem("validation_failed", "this is no alert", { errors: read.wrong });
      // The log of the process has the reason.
      const by = { actor: "service", role: "service", ...sender };
      const { alert_id, mailed } = await ports.reportAlert(read.alert, by).catch(() => {
        throw unavailable("the alert can be neither kept nor mailed now", 2);
      });
      const { incident_id } = read.alert;
      return { body: { alert_id: alert_id === null ? null : alertRef(alert_id), incident_id, mailed } };
    }),
  ];
};

const unread = (what: string) => orUnavailable(`${what} cannot be read now`, 2);
