// The host of pixels: opens what it needs by name, serves, and closes in reverse. No answer waits
// for Postgres, Redis or ClickHouse.
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { listen } from "../../infra/http/listen.ts";
import { type Check, need, openOps } from "../../infra/http/side-port.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { tlsOf } from "../../infra/runtime/tls.ts";
import { commitOf, versionOf } from "../../infra/runtime/version.ts";
import { openInstallationSecrets } from "../../modules/access/installation-secrets.ts";
import { clientFactsOf } from "../../modules/edges/facts.ts";
import { hostEdge } from "../../modules/edges/host-edge.ts";
import { recordIngestPath } from "../../modules/edges/ingest-path.ts";
import { openPathChecks } from "../../modules/edges/path-checks.ts";
import { openWay, reportWaiting } from "../../modules/edges/way.ts";
import { openPixels } from "../../modules/pixel/pixel-picture.ts";
import { shownConfig } from "../../modules/pixel/shown-config.ts";
import { openSightings } from "../../modules/pixel/sightings.ts";
import { openReference } from "../../modules/reference/reference.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { routesOf } from "./routes.ts";
import { readScript } from "./script.ts";
import { openTaking } from "./take.ts";

const REGISTRY_MS = 3_000;

/**
 * What `run` of infra/runtime/scope.ts runs. Returns once it serves, which is at once: while the
 * clients are not known, events are kept until they are.
 */
export const pixel =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const startedAt = Date.now();
    const version = versionOf();
    const metrics = openMetrics({ app: "pixel", version, commit: commitOf() });
    const checks: Record<string, Check> = { started: () => need(false, "the app is starting") };
    const ops = await scope.open("ops", async () =>
      closing(await openOps({ ...config.OPS_PORT, metrics, checks, ...tlsOf(config, log) })),
    );
    const stores = await openStores(config, log, scope);
    const way = await openWay({ scope, config, log });
    const { path, wire } = way;
    await scope.open("path-checks", () =>
      openPathChecks({
        instance: config.INSTANCE_NAME,
        state: path.state,
        probe: way.probe,
        record: (check) => recordIngestPath(stores.pool, check),
        log,
        now: Date.now,
      }),
    );
    const script = readScript("r.js");
    const take = openTaking({
      edge: hostEdge(pipeline, "pixel", { wire: wire.wire, path }),
      path,
      facts: clientFactsOf(stores.secrets.pepper, stores.reference.reference),
      settingsOf: stores.pixels.settingsOf,
      sightings: stores.sightings,
      keyring: config.TRIBUTARY_SECRET,
    });
    const configOf = shownConfig(stores.reference.reference, stores.pixels.settingsOf, Date.now);
    const scripts = { "/r.js": script, "/vitals.js": readScript("vitals.js") };
    const routes = routesOf({ take, configOf, scripts, count: metrics.countRequest, now: Date.now });
    const host = directHost(routes, { trustedProxies: config.TRUSTED_PROXIES, log });
    const server = await scope.open("server", async () =>
      closing(await listen(host, { host: config.HOST, port: config.PORT, ...tlsOf(config, log) })),
    );
    await scope.open("waiting", () => reportWaiting(way, metrics));
    await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
    checks.schemas = () =>
      need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet");
    checks.storing = path.expectRoom;
    checks.clients = () => need(stores.reference.reference() !== undefined, "the clients are not known yet");
    checks.pixels = () => need(stores.pixels.settingsOf(0) !== undefined, "the configurations are not known yet");
    checks.secrets = () => need(stores.secrets.isConfirmed(), "the pepper is not confirmed yet");
    // Events are taken all the same: readiness stays green.
    checks.script = () => (script === undefined ? "dist/pixel/r.js was not built: npm run build" : undefined);
    delete checks.started;
    log.info("app.started", { version, port: server.port, ops_port: ops.port });
  };

const openStores = async (config: Config, log: Log, scope: Scope) => {
  const warned = (what: string) => ({ onError: (error: unknown) => log.warn(`${what}.not_refreshed`, { error }) });
  const { INSTANCE_NAME: instance, TRIBUTARY_SECRET: keyring } = config;
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name: `tributary-${instance}`, max: 3, timeoutMs: 2_000 });
    return { value, stop: () => value.end() };
  });
  return {
    pool,
    secrets: openInstallationSecrets(pool, { instance, keyring, log, fail: scope.fail, signal: scope.closing }),
    reference: await scope.open("reference", () => closing(openReference(pool, warned("reference")))),
    pixels: await scope.open("pixels", () => closing(openPixels(pool, warned("pixels")))),
    sightings: await scope.open("sightings", () => closing(openSightings(pool, warned("sightings")))),
  };
};
