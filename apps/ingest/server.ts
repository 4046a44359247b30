// The routes of the ingest host, their methods, and the headers that let browsers call them.
import type { RequestListener } from "node:http";
import type { Express, Request, RequestHandler, Response } from "express";
import { type DirectRoute, directHost, send, type Visit } from "../../infra/http/direct/direct-host.ts";
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
    const isOfBrowsers = path === BATCH;
    const allowed = isOfBrowsers ? preflightHeaders(`${method}, OPTIONS`) : { Allow: `${method}, OPTIONS` };
    const methods = { [method]: direct, OPTIONS: (visit: Visit) => send(visit, 204, allowed) };
    return { path, methods, ...(isOfBrowsers && { headers: ANY_ORIGIN }) };
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
    .options((_request, response) => void response.status(204).set(preflightHeaders("GET, HEAD, OPTIONS")).end())
    .all(wrongMethod("GET, HEAD, OPTIONS"));
  app
    .route("/admin/wal-replay")
    .options(allows("POST, OPTIONS"))
    .post(routes.walReplay.start)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/admin/wal-replay/:replay_id")
    .get(routes.walReplay.show)
    .options(allows("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
  app
    .route("/admin/rules/:id/backfill")
    .options(allows("POST, OPTIONS"))
    .post(routes.backfill)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/pull/trigger")
    .options(allows("POST, OPTIONS"))
    .post(routes.pullTrigger)
    .all(wrongMethod("POST, OPTIONS"));
  app
    .route("/health")
    .get(async (_request, response) => {
      const report = await routes.health();
      response.status(report.status === "down" ? 503 : 200);
      if (report.status === "down") response.set("Retry-After", "5");
      response.json(report);
    })
    .options(allows("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
};

/** `on` is `POST /path` or `GET|POST /path`, as the topology declares it. */
const addEdge = (app: Express, on: EdgeRoute["on"], answer: EdgeRoute["answer"]): void => {
  if (answer === undefined) return;
  const [named, path] = on.split(" ") as [string, string];
  const taken = named.split("|");
  const methods = [...taken, ...(named === "GET" ? ["HEAD"] : []), "OPTIONS"].join(", ");
  const route = app.route(path).options(allows(methods));
  for (const method of taken) route[method.toLowerCase() as "get" | "post" | "put"](answer);
  route.all(wrongMethod(methods));
};

/** The door of a token that a visitor's own browser or app may hold (`client_side`). */
const BATCH = "/ingest/batch";
/**
 * Any origin may send batches and read their receipts: a browser adds no token by itself, and no
 * credentials are allowed. Servers send to all other routes, so no page reads their answers.
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

const allows =
  (methods: string): RequestHandler =>
  (_request, response) => {
    response.status(204).set("Allow", methods).end();
  };
