// The host of tracking links: opens what it needs by name, serves, and closes in reverse.
import { clickIdKey } from "../../domain/click-id.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { listen } from "../../infra/http/listen.ts";
import { need, openOps } from "../../infra/http/side-port.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { openInstallationSecrets } from "../../modules/access/installation-secrets.ts";
import { clientFactsOf } from "../../modules/edges/facts.ts";
import { recordIngestPath } from "../../modules/edges/ingest-path.ts";
import { openPathChecks } from "../../modules/edges/path-checks.ts";
import { openWay, reportWaiting } from "../../modules/edges/way.ts";
import { openReference } from "../../modules/reference/reference.ts";
import type { Config } from "./config.ts";
import { visitRoute } from "./visit-route.ts";

const REGISTRY_MS = 3_000;
/**
 * A visitor waits for the log this long at most, and only the first ones after it has gone: the
 * visits behind them go to the disk at once.
 */
const TIME_BOX_MS = 500;

/**
 * What `run` of infra/runtime/scope.ts runs. Returns once it serves, which is at once: until the
 * links are known it answers 503.
 */
export const links =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const startedAt = Date.now();
    const version = versionOf();
    const metrics = openMetrics({ app: "links", version, commit: commitOf() });
    // Opened first and closed last: /livez and /metrics answer while the rest starts and ends.
    const checks: Record<string, () => void> = { started: () => need(false, "the app is starting") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ ...config.OPS_PORT, metrics, checks, ...tlsOf(config, log) })),
    );
    const { pool, secrets, reference } = await openStores(scope, config, log);
    const way = await openWay({ scope, config, log, publishDeadlineMs: TIME_BOX_MS });
    const { path, wire } = way;
    await scope.open("path-checks", () =>
      openPathChecks({
        instance: config.INSTANCE_NAME,
        state: path.state,
        probe: way.probe,
        record: (check) => recordIngestPath(pool, check),
        log,
        now: Date.now,
      }),
    );
    const [newest, ...older] = config.TRIBUTARY_SECRET.accepted.map((secret) => clickIdKey(secret, 1));
    const route = visitRoute({
      reference: reference.reference,
      facts: clientFactsOf(secrets.pepper, reference.reference),
      keys: [newest!, ...older],
      wire: wire.wire,
      path,
      count: metrics.countRequest,
      clock: Date.now,
    });
    const { HOST: host, PORT: port, TRUSTED_PROXIES: trustedProxies } = config;
    const server = await scope.open("server", async () =>
      closing(await listen(directHost([route], { trustedProxies, log }), { host, port, ...tlsOf(config, log) })),
    );
    await scope.open("waiting", () => reportWaiting(way, metrics));
    // Closed first: readiness is red before the port takes no more.
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    // Without the registry visits are stored all the same; only a start waits for it a moment, so
    // that the host does not begin in failover.
    checks.schemas = () =>
      need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet");
    checks.storing = path.expectRoom;
    checks.links = () => need(reference.reference() !== undefined, "the links are not known yet");
    checks.secrets = () => need(secrets.isConfirmed(), "the pepper is not confirmed yet");
    delete checks.started;
    log.info("app.started", { version, port: server.port, ops_port: ops.port });
  };

/** Asked in the background alone: no visit waits for them. */
const openStores = async (scope: Scope, config: Config, log: Log) => {
  const pool = await scope.open("postgres", () => {
    const name = `tributary-${config.INSTANCE_NAME}`;
    const value = openPool(config.POSTGRES_URL, { name, max: 2, timeoutMs: 2_000 });
    return { value, stop: () => value.end() };
  });
  const onError = (error: unknown) => log.warn("reference.not_refreshed", { error });
  return {
    pool,
    secrets: openInstallationSecrets(pool, {
      instance: config.INSTANCE_NAME,
      keyring: config.TRIBUTARY_SECRET,
      log,
      fail: scope.fail,
      signal: scope.closing,
    }),
    reference: await scope.open("reference", () => closing(openReference(pool, { onError }))),
  };
};
