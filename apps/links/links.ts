// The host of tracking links: opens what it needs by name, serves, and closes in reverse.
import { clickIdKey } from "../../domain/click-id.ts";
import { linkEdges } from "../../edges/link.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { openEdge } from "../../modules/intake/path/edge.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import type { Config } from "./config.ts";
import { visitRoute } from "./visit-route.ts";

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
    const opening = { scope, config, log };
    const { metrics, ready } = await openApp("links", opening);
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
    const [newest, ...older] = config.TRIBUTARY_SECRET.accepted.map((secret) => clickIdKey(secret, 1));
    const route = visitRoute({
      reference,
      facts: clientFactsOf(edge.secrets.pepper, reference),
      keys: [newest!, ...older],
      wire: edge.way.wire.wire,
      path: edge.way.path,
      count: metrics.countRequest,
      clock: Date.now,
    });
    const served = await serve(opening, directHost([route], { trustedProxies: config.TRUSTED_PROXIES, log }));
    const links = () => need(reference() !== undefined, "the links are not known yet");
    await ready({ ...edge.checks, links }, served);
  };
