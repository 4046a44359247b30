// The host of pixels: opens its resources by name, serves, and closes them in reverse. No answer
// waits for Postgres, Redis or ClickHouse, except those to chunks of recordings.
import type pg from "pg";
import { pixelEdges } from "../../edges/pixel.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { homeFolderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openPixels } from "../../modules/catalog/pixel/pixel-picture.ts";
import { shownConfig } from "../../modules/catalog/pixel/shown-config.ts";
import { openSightings } from "../../modules/catalog/pixel/sightings.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { type Edge, openEdge } from "../../modules/intake/path/edge.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import { hostEdge } from "../../modules/intake/path/host-edge.ts";
import { openQuotas } from "../../modules/intake/quotas/quotas.ts";
import { openTickets } from "../../modules/intake/recordings/gates.ts";
import { storeChunk } from "../../modules/intake/recordings/recording-store.ts";
import type { Config } from "./config.ts";
import { openTaking } from "./intake.ts";
import type { RecordingPorts } from "./recording.ts";
import { routesOf } from "./routes.ts";
import { readScript } from "./script.ts";

/**
 * The app, for `run` of infra/runtime/scope.ts. Returns at once, when it serves: until the clients
 * are loaded, events are kept as dead letters.
 */
export const pixel =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { metrics, ready } = await openApp("pixel", opening);
    metrics.expect({ edges: ["pixel"] });
    await scope.open("disks", () => watchDisks({ home: homeFolderOf(config) }, metrics));
    const { pool, secrets, way, checks } = await openEdge({ ...opening, edges: pixelEdges, metrics, connections: 3 });
    const { reference, settingsOf, sightings, quotas } = await openKnown(pool, log, scope);
    const script = readScript("r.js");
    const facts = clientFactsOf(secrets.pepper, reference);
    const tickets = openTickets(config.TRIBUTARY_SECRET);
    const store = await openRecordings(config, way, scope);
    const replay = { facts, settingsOf, quotas, tickets, store, now: Date.now };
    const routes = routesOf({
      take: openTaking({
        edge: hostEdge(pixelEdges, "pixel", { wire: way.wire.wire, path: way.path }),
        path: way.path,
        facts,
        settingsOf,
        sightings,
        quotas,
        keyring: config.TRIBUTARY_SECRET,
      }),
      configOf: shownConfig(reference, settingsOf, Date.now),
      scripts: { "/r.js": script, "/vitals.js": readScript("vitals.js"), "/replay.js": readScript("replay.js") },
      replay,
      count: metrics.countRequest,
      now: Date.now,
    });
    const served = await serve(opening, directHost(routes, { trustedProxies: config.TRUSTED_PROXIES, log }));
    await ready(
      {
        ...checks,
        clients: () => need(reference() !== undefined, "the clients are not known yet"),
        pixels: () => need(settingsOf(0) !== undefined, "the configurations are not known yet"),
        // Readiness stays green, because events are accepted without the script.
        script: () => (script === undefined ? "dist/pixel/r.js was not built: npm run build" : undefined),
      },
      served,
    );
  };

/** Recordings have their own connections, so that events never wait for them. */
const openRecordings = async (
  { INSTANCE_NAME: instance, POSTGRES_URL: url, TRIBUTARY_SECRET: keyring }: Config,
  { objects }: Pick<Edge["way"], "objects">,
  scope: Scope,
): Promise<RecordingPorts["store"]> => {
  const pool = await scope.open("recordings", () => {
    const value = openPool(url, { name: `tributary-${instance}-recordings`, max: 3, timeoutMs: 2_000 });
    return { value, stop: () => value.end() };
  });
  return (taken) => storeChunk({ pool, objects, keyring }, taken);
};

/** These read and write Postgres in the background only. */
const openKnown = async (pool: pg.Pool, log: Log, scope: Scope) => {
  const warned = (what: string) => ({ onError: (error: unknown) => log.warn(`${what}.not_refreshed`, { error }) });
  const { reference } = await scope.open("reference", () => closing(openReference(pool, warned("reference"))));
  const { settingsOf } = await scope.open("pixels", () => closing(openPixels(pool, warned("pixels"))));
  const sightings = await scope.open("sightings", () => closing(openSightings(pool, warned("sightings"))));
  const quotas = await scope.open("quotas", () => closing(openQuotas(pool, warned("quotas"))));
  return { reference, settingsOf, sightings, quotas };
};
