// The common part of every host: it gives each request an id and headers, and refuses unknown paths
// and methods before anything else.
import express, { type Express, type RequestHandler } from "express";
import helmet from "helmet";
import type { Log } from "../runtime/log.ts";
import { answerProblems, Problem } from "./problem.ts";
import { requestIdOf } from "./sender.ts";

/**
 * A host with the routes that `add` names. Unknown paths are 404, and errors that routes throw
 * become answers. `trustedProxies` is in the form of express: only these proxies may say in
 * X-Forwarded-For who the sender is.
 */
export const openHost = (add: (app: Express) => void, trustedProxies: readonly string[], log: Log): Express => {
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
  add(app);
  app.use(() => {
    throw new Problem("not_found", "no such path on this host");
  });
  app.use(answerProblems(log));
  return app;
};

/** The last handler of a route: refuses every method that was not handled before. */
export const wrongMethod =
  (methods: string): RequestHandler =>
  () => {
    throw new Problem("method_not_allowed", `this path takes ${methods}`, { headers: { Allow: methods } });
  };

const identify: RequestHandler = (request, response, next) => {
  const id = requestIdOf(request.headers);
  response.locals.requestId = id;
  response.set("X-Request-Id", id);
  next();
};

const noStore: RequestHandler = (_request, response, next) => {
  response.set("Cache-Control", "no-store");
  next();
};
