// Opens what the host of every edge needs: Postgres, which no request waits for, the installation's
// secrets, the path into the log, and the record of the path's state.
import { openPool } from "../../../infra/postgres/sql.ts";
import type { Environment, edgeVariables } from "../../../infra/runtime/environment.ts";
import { need } from "../../../infra/runtime/errors.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import { openInstallationSecrets } from "../../access/secrets/installation-secrets.ts";
import { recordIngestPath } from "./ingest-path.ts";
import { openWay, reportWaiting, type WayOpening } from "./log-path.ts";
import { openPathChecks } from "./path-checks.ts";

export interface EdgeOpening extends WayOpening {
  readonly config: Environment<(typeof edgeVariables)[number]>;
  readonly metrics: Metrics;
  /** Most connections to Postgres. */
  readonly connections: number;
}

const POSTGRES_MS = 2_000;
const REGISTRY_MS = 3_000;

/** Opens everything by name in the scope of a host; `checks` are the readiness checks. */
export const openEdge = async (opening: EdgeOpening) => {
  const { scope, config, log, metrics, connections } = opening;
  const { INSTANCE_NAME: instance, TRIBUTARY_SECRET: keyring } = config;
  const startedAt = Date.now();
  const pool = await scope.open("postgres", () => {
    const settings = { name: `tributary-${instance}`, max: connections, timeoutMs: POSTGRES_MS };
    const value = openPool(config.POSTGRES_URL, settings);
    return { value, stop: () => value.end() };
  });
  const secrets = openInstallationSecrets(pool, { instance, keyring, log, fail: scope.fail, signal: scope.closing });
  const way = await openWay(opening);
  const { path, probe, wire } = way;
  const record = recordIngestPath.bind(undefined, pool);
  await scope.open("path-checks", () =>
    openPathChecks({ instance, state: path.state, probe, record, log, now: Date.now }),
  );
  await scope.open("waiting", () => reportWaiting(way, metrics));
  return {
    pool,
    secrets,
    way,
    checks: {
      // Events are stored even without the registry. Only the start waits briefly for it, so that
      // an edge does not begin in failover.
      schemas: () => need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet"),
      storing: path.expectRoom,
      secrets: () => need(secrets.isConfirmed(), "the pepper is not confirmed yet"),
    },
  };
};
export type Edge = Awaited<ReturnType<typeof openEdge>>;
