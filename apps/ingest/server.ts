// apps/ingest/server.ts - the routes of the ingest host and what holds for every request: its id, its headers, the order of checks.
import { randomUUID } from "node:crypto";
import express, { type Express, type Request, type RequestHandler, type Response } from "express";
import helmet from "helmet";
import type { Log } from "../../stream/log.ts";
import type { HealthReport } from "./health.ts";
import { answerProblems, Problem } from "./problem.ts";

export interface Routes {
  readonly batch: (request: Request, response: Response) => Promise<void>;
  readonly receipts: (request: Request, response: Response) => Promise<void>;
  readonly health: () => Promise<HealthReport>;
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** `trustedProxies` as express takes them: only they may say in X-Forwarded-For who the sender is. */
export const ingestApp = (routes: Routes, trustedProxies: readonly string[], log: Log): Express => {
  const app = express();
  app.set("trust proxy", trustedProxies.length === 0 ? false : [...trustedProxies]);
  app
    .set("case sensitive routing", true)
    .set("strict routing", true)
    .set("etag", false)
    .set("query parser", "simple")
    .disable("x-powered-by");
  app.use(identify);
  app.use(helmet());
  app.use(noStore);

  app.route("/ingest/batch").options(preflight("POST, OPTIONS")).post(anyOrigin, routes.batch).all(wrongMethod("POST, OPTIONS"));
  app
    .route("/ingest/receipts/:batch_id")
    .get(anyOrigin, routes.receipts)
    .options(preflight("GET, HEAD, OPTIONS"))
    .all(wrongMethod("GET, HEAD, OPTIONS"));
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
  app.use(() => {
    throw new Problem("not_found", "no such path on this host");
  });
  app.use(answerProblems(log));
  return app;
};

const identify: RequestHandler = (request, response, next) => {
  const given = request.headers["x-request-id"];
  const id = typeof given === "string" && REQUEST_ID.test(given) ? given : randomUUID();
  response.locals.requestId = id;
  response.set("X-Request-Id", id);
  next();
};

const noStore: RequestHandler = (_request, response, next) => {
  response.set("Cache-Control", "no-store");
  next();
};

/** A token is sent by whoever holds it, never by a browser on its own, so any origin may use one: no credentials are allowed. */
const anyOrigin: RequestHandler = (_request, response, next) => {
  response.set("Access-Control-Allow-Origin", "*");
  response.set("Access-Control-Expose-Headers", "X-Request-Id, RateLimit, RateLimit-Policy, Retry-After");
  next();
};

const preflight =
  (methods: string): RequestHandler =>
  (_request, response) => {
    response
      .status(204)
      .set({
        Allow: methods,
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": "authorization, content-type, content-encoding, idempotency-key, x-request-id, traceparent",
        "Access-Control-Max-Age": "600",
      })
      .end();
  };

const wrongMethod =
  (methods: string): RequestHandler =>
  () => {
    throw new Problem("method_not_allowed", `this path takes ${methods}`, { headers: { Allow: methods } });
  };
