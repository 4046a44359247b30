// The host of tracking links: opens its resources by name, serves, and closes them in reverse.
import { clickIdKey } from "../../domain/click-id.ts";
import { linkEdges } from "../../edges/link.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { homeFolderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { openEdge } from "../../modules/intake/path/edge.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import { openQuotas } from "../../modules/intake/quotas/quotas.ts";
import { edgesOf } from "../../stream/topology.ts";
import type { Config } from "./config.ts";
import { visitRoute } from "./visit-route.ts";

/**
 * The longest time that a visitor waits for the log. Only the first visitors after an outage begins
 * wait; later visits go to the disk at once.
 */
const TIME_BOX_MS = 500;

/**
 * The app, for `run` of infra/runtime/scope.ts. Returns at once, when it serves: until the links
 * are loaded it answers 503.
 */
export const links =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { metrics, ready } = await openApp("links", opening);
    metrics.expect({ edges: edgesOf(linkEdges).map(({ name }) => name) });
    await scope.open("disks", () => watchDisks({ home: homeFolderOf(config) }, metrics));
    const edge = await openEdge({
      ...opening,
      edges: linkEdges,
      metrics,
      connections: 2,
      publishDeadlineMs: TIME_BOX_MS,
    });
    const { reference } = await scope.open("reference", () => {
      const onError = (error: unknown) => log.warn("reference.not_refreshed", { error });
      return closing(openReference(edge.pool, { onError }));
    });
    const quotas = await scope.open("quotas", () => {
      const onError = (error: unknown) => log.warn("quotas.not_written", { error });
      return closing(openQuotas(edge.pool, { onError }));
    });
    const [newest, ...older] = config.TRIBUTARY_SECRET.accepted.map((secret) => clickIdKey(secret, 1));
    const route = visitRoute({
      reference,
      facts: clientFactsOf(edge.secrets.pepper, reference),
      keys: [newest!, ...older],
      wire: edge.way.wire.wire,
      path: edge.way.path,
      quotas,
      count: metrics.countRequest,
      clock: Date.now,
    });
    const served = await serve(opening, directHost([route], { trustedProxies: config.TRUSTED_PROXIES, log }));
    const links = () => need(reference() !== undefined, "the links are not known yet");
    await ready({ ...edge.checks, links }, served);
  };
