// The checks of the platform API in their order: path, method, credential, rate, size and type,
// role, then query, body and path by the contract, and then those of the route.

import type { Express, Request, RequestHandler, Response } from "express";
import { openHost, wrongMethod } from "../../infra/http/host.ts";
import { takePlace } from "../../infra/http/limits.ts";
import { Problem } from "../../infra/http/problem.ts";
import type { Verdict } from "../../infra/http/rate-limit.ts";
import { checkType } from "../../infra/http/read-body.ts";
import { parseJson, readBytesIfAny, readRawBytes } from "../../infra/http/read-json.ts";
import { problemOfRefusal } from "../../infra/http/refusal-problem.ts";
import { senderOf } from "../../infra/http/sender.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import type { User } from "../../modules/access/users/users.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { expectQuota, type Quotas } from "../../modules/intake/quotas/quotas.ts";
import { allowOrigin, answerPreflight } from "./cors.ts";
import { limitOf, OF_ADDRESS, OF_LEADS, USUAL } from "./limits.ts";
import { queryIn } from "./request/accept.ts";
import { askOf } from "./request/ask.ts";
import { type AskPorts, away, rendered } from "./request/checked-request.ts";
import type { Caller, Reply, ServedRoute } from "./route.ts";

export interface ServerPorts extends AskPorts {
  /** Throws Problem 401, 429 or 503. */
  readonly identify: (request: Request, address: string, requestId: string) => Promise<User>;
  /** The id of a service token; throws Problem 401. */
  readonly service: (request: Request) => Promise<number>;
  /** Whether the client has signed the bytes. */
  readonly isSigned: (clientId: number, bytes: Buffer, signature: string | undefined) => Promise<boolean>;
  /** The answer to an address without a valid signature; after too many of them it is 429. */
  readonly refused: (address: string, unauthorized: Problem) => Problem;
  /** Connections for figures and files, so that none of them waits for, or holds up, the others. */
  readonly figures: AskPorts["pool"];
  /** The turn of a user's dear request. */
  readonly turn: (key: string) => Promise<() => void>;
  readonly limit: (key: string, limit: number) => Promise<Verdict>;
  readonly quotas: Pick<Quotas, "spend">;
  /** The plan of a client; undefined while it is not known. */
  readonly planOf: (clientId: number) => string | undefined;
  readonly count: (counts: RequestCounts) => void;
  readonly trustedProxies: readonly string[];
  /** The origin of the portal; undefined: no page of another host may read answers. */
  readonly portal: string | undefined;
  readonly log: Log;
}

const VERBS = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "delete" } as const;

export const apiApp = (routes: readonly ServedRoute[], ports: ServerPorts): Express =>
  openHost(
    (app) => {
      app.use(allowOrigin(ports.portal));
      for (const path of new Set(inOrder(routes).map((route) => route.path))) {
        const here = routes.filter((route) => route.path === path);
        const methods = [
          ...here.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method])),
          "OPTIONS",
        ].join(", ");
        const added = app.route(path).options(answerPreflight(ports.portal, methods));
        for (const route of here) added[VERBS[route.method]](answering(route, ports));
        added.all(wrongMethod(methods));
      }
    },
    ports.trustedProxies,
    ports.log,
  );

/** `/clients/onboard` comes before `/clients/:id`, because express takes the first match. */
const inOrder = (routes: readonly ServedRoute[]): readonly ServedRoute[] =>
  [...routes].sort((a, b) => {
    const [one, other] = [a.path.replaceAll(":", "\uffff"), b.path.replaceAll(":", "\uffff")];
    return one < other ? -1 : one > other ? 1 : 0;
  });

const answering =
  (route: ServedRoute, ports: ServerPorts): RequestHandler =>
  async (request, response) => {
    const began = performance.now();
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      ports.count({ edge: "api", status: response.statusCode, seconds, accepted: 0, refused: new Map() });
    });
    try {
      await send(response, await replyTo(route, ports, request, response));
    } catch (error) {
      throw error instanceof RefusalError ? problemOfRefusal(error) : error;
    }
  };

const replyTo = async (
  route: ServedRoute,
  ports: ServerPorts,
  request: Request,
  response: Response,
): Promise<Reply> => {
  const { caller, bytes } =
    route.auth === "hmac"
      ? await signedArrival(route, ports, request, response)
      : await plainArrival(route, ports, request, response);
  if (caller.kind === "user" && !route.roles.includes(caller.user.role))
    throw new Problem("forbidden", "your role may not use this route");
  const json = bytes === undefined ? undefined : parseJson(bytes, route.contract.mostKeys);
  const requestId = response.locals.requestId as string;
  const isDear = caller.kind === "user" && (isHeavyRequest(route, request) || route.contract.readsFigures);
  if (isDear) await takeTurn(ports, caller.user, response);
  const own = isDear ? { ...ports, pool: ports.figures } : ports;
  const ask = askOf(own, { route, caller, request, requestId, bytes, json });
  return rendered(route, caller, await route.answer(ask));
};

/** The turn lasts as long as the answer, which may be a file of minutes. */
const takeTurn = async ({ turn }: ServerPorts, { user_id }: User, response: Response): Promise<void> => {
  const leave = await turn(`user:${user_id}`);
  response.once("close", leave);
  // It has gone while it waited.
  if (response.closed) leave();
};

interface Arrival {
  readonly caller: Caller;
  readonly bytes: Buffer | undefined;
}

const plainArrival = async (
  route: ServedRoute,
  ports: ServerPorts,
  request: Request,
  response: Response,
): Promise<Arrival> => {
  const caller = await callerOf(route, ports, request, response);
  return { caller, bytes: route.method === "GET" ? undefined : await readBytesIfAny(request) };
};

/**
 * Reads the whole body first, because its raw bytes are signed. An unknown client, a client without
 * a secret and a wrong signature get the same answer, which does not tell them apart.
 */
const signedArrival = async (
  { contract }: ServedRoute,
  ports: ServerPorts,
  request: Request,
  response: Response,
): Promise<Arrival> => {
  const { client_id } = queryIn(contract, undefined, request.query) as { readonly client_id: number };
  const bytes = await readRawBytes(request);
  const signatures = request.headersDistinct[SIGNATURE] ?? [];
  const isSigned = await ports
    .isSigned(client_id, bytes, signatures.length === 1 ? signatures[0] : undefined)
    .catch(away);
  if (!isSigned) throw ports.refused(request.ip ?? "", unsigned());
  const verdict = await ports.limit(`api:leads:${client_id}`, OF_LEADS);
  takePlace(verdict, OF_LEADS, response, `${OF_LEADS} leads of a client a minute are let through`);
  checkType(request, ["identity"]);
  const use = { clientId: client_id, side: "signed", events: 1, bytes: bytes.length } as const;
  expectQuota(ports.quotas, { ...use, movesMoney: true });
  return { caller: { kind: "client", client_id }, bytes };
};

const SIGNATURE = "x-svc-signature";
const unsigned = (): Problem =>
  new Problem(
    "unauthorized",
    "send X-Svc-Signature: the hex HMAC-SHA256 of the body as it is sent, keyed with the client's secret",
    { headers: { "WWW-Authenticate": "X-Svc-Signature" } },
  );

const send = async (response: Response, { status, headers = {}, text, send: stream }: Reply): Promise<void> => {
  if (stream !== undefined) return stream(response);
  response.status(status!).set(headers).end(text);
};

const callerOf = async (
  route: ServedRoute,
  ports: ServerPorts,
  request: Request,
  response: Response,
): Promise<Caller> => {
  const take = async (key: string, limit: number): Promise<void> =>
    takePlace(await ports.limit(`api:${key}`, limit), limit, response, `${limit} requests a minute are let through`);
  // The token of an invitation is in the body, and the use case checks it.
  if (route.auth === "none" || route.auth === "invitation") {
    if (route.isUnlimited !== true) await take(`address:${senderOf(request.ip ?? "")}`, OF_ADDRESS);
    return { kind: "anyone" };
  }
  if (route.auth === "service-token") {
    await take(`token:${await ports.service(request)}`, USUAL);
    return { kind: "service" };
  }
  const user = await ports.identify(request, request.ip ?? "", response.locals.requestId as string);
  const isHeavy = isHeavyRequest(route, request);
  const { role, client_ids, user_id } = user;
  const plan = client_ids.length === 1 ? ports.planOf(client_ids[0]!) : undefined;
  await take(`user:${user_id}${isHeavy ? ":heavy" : ""}`, limitOf(role, plan, isHeavy));
  return { kind: "user", user };
};

const isHeavyRequest = ({ contract }: ServedRoute, request: Request): boolean => contract.isHeavy || isExport(request);

const isExport = ({ query, headers }: Request): boolean =>
  query.format === "csv" || headers.accept?.includes("text/csv") === true;
