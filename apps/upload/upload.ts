// The upload host: takes files that are sent in parts, and makes events of the rows of every file.
import { uploadEdges } from "../../edges/upload.ts";
import { openApp, serve } from "../../infra/http/app/open-app.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { homeFolderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { openImporter } from "../../modules/intake/imports/run/importer.ts";
import { openEdge } from "../../modules/intake/path/edge.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import type { Config } from "./config.ts";
import { partsRoute } from "./parts.ts";
import { uploadApp } from "./server.ts";

/**
 * The app, for `run` of infra/runtime/scope.ts. It serves at once: while stores are away, files
 * wait.
 */
export const upload =
  (config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { metrics, ready, version, startedAt } = await openApp("upload", opening);
    metrics.expect({ edges: ["parts"] });
    await scope.open("disks", () => watchDisks({ home: homeFolderOf(config) }, metrics));
    const edge = await openEdge({ ...opening, edges: uploadEdges, metrics, connections: 4 });
    const { reference } = await scope.open("reference", () => {
      const onError = (error: unknown) => log.warn("reference.not_refreshed", { error });
      return closing(openReference(edge.pool, { onError }));
    });
    await scope.open("importer", () =>
      openImporter({
        pool: edge.pool,
        objects: edge.way.objects,
        wire: edge.way.wire.wire,
        path: edge.way.path,
        facts: clientFactsOf(edge.secrets.pepper, reference),
        clock: Date.now,
        log,
      }),
    );
    const parts = partsRoute({ pool: edge.pool, objects: edge.way.objects, count: metrics.countRequest });
    const served = await serve(opening, uploadApp({ version, startedAt, parts }, config.TRUSTED_PROXIES, log));
    const clients = () => need(reference() !== undefined, "the clients are not known yet");
    await ready({ ...edge.checks, clients }, served);
  };
