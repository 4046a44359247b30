// The routes of the ingest host, their methods, and the headers that let browsers call them.
import type { RequestListener } from "node:http";
import type { Express, Request, RequestHandler, Response } from "express";
import { type DirectRoute, directHost, send } from "../../infra/http/direct/direct-host.ts";
import { openHost, wrongMethod } from "../../infra/http/host.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { EdgeRoute } from "./edges.ts";
import type { HealthReport } from "./routes/health.ts";
import type { walReplayRoutes } from "./routes/wal-replay.ts";

export interface Routes {
  readonly edges: readonly EdgeRoute[];
  readonly receipts: (request: Request, response: Response) => Promise<void>;
  readonly health: () => Promise<HealthReport>;
  readonly walReplay: ReturnType<typeof walReplayRoutes>;
  readonly backfill: (request: Request, response: Response) => Promise<void>;
  readonly pullTrigger: (request: Request, response: Response) => Promise<void>;
}

/** Edges with thousands of requests a second are answered without Express. */
export const ingestHost = (routes: Routes, trustedProxies: readonly string[], log: Log): RequestListener =>
  directHost(directRoutes(routes.edges), { trustedProxies, log, otherwise: ingestApp(routes, trustedProxies, log) });

export const directRoutes = (edges: Routes["edges"]): readonly DirectRoute[] =>
  edges.flatMap(({ on, direct }) => {
    if (direct === undefined) return [];
    const [method, path] = on.split(" ") as ["GET" | "POST", `/${string}`];
    const allowed = preflightHeaders(`${method}, OPTIONS`);
    return { path, methods: { [method]: direct, OPTIONS: (visit) => send(visit, 204, allowed) }, headers: ANY_ORIGIN };
  });

export const ingestApp = (routes: Routes, trustedProxies: readonly string[], log: Log): Express =>
  openHost((app) => addRoutes(app, routes), trustedProxies, log);

const addRoutes = (app: Express, routes: Routes): void => {
  // The router takes the first match, so fixed names come before parameters.
  const hasParameter = ({ on }: EdgeRoute): number => Number(on.includes(":"));
  const edges = [...routes.edges].sort((a, b) => hasParameter(a) - hasParameter(b));
  for (const { on, answer } of edges) addEdge(app, on, answer);
  app
    .route("/ingest/receipts/:batch_id")
    .get(anyOrigin, routes.receipts)
    .options(preflight("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
  app
    .route("/admin/wal-replay")
    .options(preflight("POST, OPTIONS"))
    .post(anyOrigin, routes.walReplay.start)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/admin/wal-replay/:replay_id")
    .get(anyOrigin, routes.walReplay.show)
    .options(preflight("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
  app
    .route("/admin/rules/:id/backfill")
    .options(preflight("POST, OPTIONS"))
    .post(anyOrigin, routes.backfill)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/pull/trigger")
    .options(preflight("POST, OPTIONS"))
    .post(anyOrigin, routes.pullTrigger)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/health")
    .get(anyOrigin, async (_request, response) => {
      const report = await routes.health();
      response.status(report.status === "down" ? 503 : 200);
      if (report.status === "down") response.set("Retry-After", "5");
      response.json(report);
    })
    .options(preflight("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
};

/** `on` is `POST /path` or `GET|POST /path`, as the topology declares it. */
const addEdge = (app: Express, on: EdgeRoute["on"], answer: EdgeRoute["answer"]): void => {
  if (answer === undefined) return;
  const [named, path] = on.split(" ") as [string, string];
  const taken = named.split("|");
  const methods = [...taken, ...(named === "GET" ? ["HEAD"] : []), "OPTIONS"].join(", ");
  const route = app.route(path).options(preflight(methods));
  for (const method of taken) route[method.toLowerCase() as "get" | "post" | "put"](anyOrigin, answer);
  route.all(wrongMethod(methods));
};

/**
 * Any origin may send requests: a browser adds no token by itself, and no credentials are allowed.
 */
const ANY_ORIGIN = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": "X-Request-Id, RateLimit, RateLimit-Policy, Retry-After",
} as const;

const anyOrigin: RequestHandler = (_request, response, next) => {
  response.set(ANY_ORIGIN);
  next();
};

const preflightHeaders = (methods: string) => ({
  Allow: methods,
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Methods": methods,
  "Access-Control-Allow-Headers":
    "authorization, content-type, content-encoding, idempotency-key, x-request-id, traceparent",
  "Access-Control-Max-Age": "600",
});

const preflight =
  (methods: string): RequestHandler =>
  (_request, response) => {
    response.status(204).set(preflightHeaders(methods)).end();
  };
