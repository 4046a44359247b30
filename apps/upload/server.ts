// The routes of the upload host.
import type { Express, RequestHandler } from "express";
import { openHost, wrongMethod } from "../../infra/http/host.ts";
import type { Log } from "../../infra/runtime/log.ts";

export interface Routes {
  readonly version: string;
  readonly startedAt: number;
  readonly parts: RequestHandler;
}

export const uploadApp = (
  { version, startedAt, parts }: Routes,
  trustedProxies: readonly string[],
  log: Log,
): Express =>
  openHost(
    (app) => {
      app
        .route("/health")
        .get((_request, response) => {
          response.json({ status: "ok", version, uptime_sec: Math.floor((Date.now() - startedAt) / 1_000) });
        })
        .options((_request, response) => void response.status(204).set("Allow", "GET, HEAD, OPTIONS").end())
        .all(wrongMethod("GET, HEAD, OPTIONS"));
      app
        .route("/parts/:upload_id/:part")
        .put(parts)
        .options((_request, response) => void response.status(204).set("Allow", "PUT, OPTIONS").end())
        .all(wrongMethod("PUT, OPTIONS"));
    },
    trustedProxies,
    log,
  );
