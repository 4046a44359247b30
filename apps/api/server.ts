// The order of checks of the platform API: path, method, credential, rate, size and type, role, and
// then the route's own.
import type { Express, Request, RequestHandler, Response } from "express";
import { openHost, wrongMethod } from "../../infra/http/host.ts";
import { takePlace } from "../../infra/http/limits.ts";
import { Problem } from "../../infra/http/problem.ts";
import type { Verdict } from "../../infra/http/rate-limit.ts";
import { checkTexts, parseJson, readBytes } from "../../infra/http/read-json.ts";
import { senderOf } from "../../infra/http/sender.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import type { User } from "../../modules/access/users.ts";
import type { Caller, Route } from "./route.ts";

export interface ServerPorts {
  /** Throws Problem 401, 429 or 503. */
  readonly identify: (request: Request, address: string) => Promise<User>;
  /** The id of a service token; throws Problem 401. */
  readonly service: (request: Request) => number;
  readonly limit: (key: string) => Promise<Verdict>;
  readonly count: (counts: RequestCounts) => void;
  readonly trustedProxies: readonly string[];
  readonly log: Log;
}

/**
 * docs/design/contracts.md, "Limits": what a user may ask in a minute; plans and roles have the
 * same until there is a table of them.
 */
export const REQUESTS_A_MINUTE = 600;

export const apiApp = (routes: readonly Route[], ports: ServerPorts): Express =>
  openHost(
    (app) => {
      for (const path of new Set(routes.map((route) => route.path))) {
        const here = routes.filter((route) => route.path === path);
        const methods = [
          ...here.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method])),
          "OPTIONS",
        ].join(", ");
        const added = app
          .route(path)
          .options((_request, response) => void response.status(204).set("Allow", methods).end());
        for (const route of here) added[route.method === "GET" ? "get" : "post"](answering(route, ports));
        added.all(wrongMethod(methods));
      }
    },
    ports.trustedProxies,
    ports.log,
  );

const answering =
  (route: Route, ports: ServerPorts): RequestHandler =>
  async (request, response) => {
    const began = performance.now();
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      ports.count({ edge: "api", status: response.statusCode, seconds, accepted: 0, refused: new Map() });
    });
    const caller = await callerOf(route, ports, request, response);
    const bytes = route.method === "POST" && hasBody(request) ? await readBytes(request) : undefined;
    if (caller.kind === "user" && route.roles?.includes(caller.user.role) !== true)
      throw new Problem("forbidden", "your role may not use this route");
    checkTexts(request.params);
    checkTexts(request.query);
    const {
      status,
      body,
      headers = {},
    } = await route.answer({
      caller,
      params: request.params as Readonly<Record<string, string>>,
      query: request.query as Readonly<Record<string, string | readonly string[] | undefined>>,
      body: bytes === undefined ? undefined : parseJson(bytes),
    });
    response.status(status).set(headers).json(body);
  };

const callerOf = async (route: Route, ports: ServerPorts, request: Request, response: Response): Promise<Caller> => {
  if (route.auth === "none") {
    if (route.isUnlimited !== true) await take(ports, `address:${senderOf(request.ip ?? "")}`, response);
    return { kind: "anyone" };
  }
  if (route.auth === "service-token") {
    await take(ports, `token:${ports.service(request)}`, response);
    return { kind: "service" };
  }
  const user = await ports.identify(request, request.ip ?? "");
  await take(ports, `user:${user.user_id}`, response);
  return { kind: "user", user };
};

const take = async ({ limit }: ServerPorts, key: string, response: Response): Promise<void> =>
  takePlace(
    await limit(`api:${key}`),
    REQUESTS_A_MINUTE,
    response,
    `${REQUESTS_A_MINUTE} requests a minute are let through`,
  );

const hasBody = (request: Request): boolean =>
  request.headers["transfer-encoding"] !== undefined || Number(request.headers["content-length"] ?? 0) > 0;
