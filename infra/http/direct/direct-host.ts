// A host on node:http alone, for routes that are asked thousands of times a second. It does for
// every request what openHost (infra/http/host.ts) does on the other hosts.
import type {
  IncomingMessage,
  OutgoingHttpHeader,
  OutgoingHttpHeaders,
  RequestListener,
  ServerResponse,
} from "node:http";
import type { TLSSocket } from "node:tls";
import proxyaddr from "proxy-addr";
import type { Log } from "../../runtime/log.ts";
import { Problem, problemAnswer, problemOf, SenderGone } from "../problem.ts";
import { requestIdOf } from "../sender.ts";

/** One request, and where its answer goes. */
export interface Visit {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The path from the request, not decoded and without the query. */
  readonly path: string;
  /** The undecoded part after the question mark; "" if there is none. */
  readonly query: string;
  /** The segment after the path of a route that ends in a slash. */
  readonly rest: string;
  /** Name and port as the sender gave them; "" if it gave no valid one. */
  readonly host: string;
  /** The address of the sender behind the trusted proxies. */
  readonly address: string;
  /** True if it came by https, to us or to a trusted proxy. */
  readonly isSecure: boolean;
  readonly requestId: string;
  /** Headers that every answer of the route has. */
  readonly always: FixedHeaders;
  /**
   * Further headers of this answer, set by the handler. They are also sent if the answer becomes a
   * problem.
   */
  own: FixedHeaders;
}

type FixedHeaders = Readonly<Record<string, string>>;
type Handle = (visit: Visit) => Promise<void> | void;
type Method = "GET" | "POST" | "OPTIONS";

export interface DirectRoute {
  /** An exact path, or a path with a slash at its end for one segment below it. */
  readonly path: `/${string}`;
  /** HEAD is answered like GET, without the body. Errors that a method throws become answers. */
  readonly methods: Readonly<Partial<Record<Method, Handle>>>;
  /** Headers of every answer, problems included. */
  readonly headers?: FixedHeaders;
}

export interface DirectSettings {
  /** Has the form of express's `trust proxy`. */
  readonly trustedProxies: readonly string[];
  readonly log: Log;
  /** Answers the paths of no route; without it they are 404. */
  readonly otherwise?: RequestListener;
}

/** Answers of these hosts are not pages: nothing in them may run or be framed. */
const ALWAYS = [
  ["Cache-Control", "no-store"],
  ["Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"],
  ["Strict-Transport-Security", "max-age=31536000; includeSubDomains"],
  ["X-Content-Type-Options", "nosniff"],
] as const;

const none: FixedHeaders = {};
const HOST = /^[A-Za-z0-9.-]{1,253}(?::\d{1,5})?$/;

/** Paths without a route are 404, other methods 405; `OPTIONS` names the methods that exist. */
export const directHost = (
  routes: readonly DirectRoute[],
  { trustedProxies, log, otherwise }: DirectSettings,
): RequestListener => {
  const exact = new Map(routes.map((route) => [route.path as string, route]));
  const below = routes.filter(({ path }) => path.endsWith("/"));
  const visitOf = visits(trustedProxies);
  const find = (path: string): readonly [route: DirectRoute | undefined, rest: string] => {
    for (const route of below) {
      const rest = path.startsWith(route.path) ? path.slice(route.path.length) : "";
      if (rest !== "" && !rest.includes("/")) return [route, rest];
    }
    return [path.endsWith("/") ? undefined : exact.get(path), ""];
  };
  return (request, response) => {
    const url = request.url ?? "";
    const mark = url.indexOf("?");
    const path = mark === -1 ? url : url.slice(0, mark);
    const [route, rest] = find(path);
    if (route === undefined && otherwise !== undefined) return otherwise(request, response);
    const query = mark === -1 ? "" : url.slice(mark + 1);
    const visit = visitOf(request, response, { path, query, rest, always: route?.headers ?? none });
    try {
      const answered = handleOf(route, request.method)(visit);
      if (answered !== undefined) answered.catch((error: unknown) => answerProblem(visit, error, log));
    } catch (error) {
      answerProblem(visit, error, log);
    }
  };
};

/** Reads a header of the request by its name in small letters; of a repeated header the first. */
export const headersOf =
  ({ request: { headers } }: Pick<Visit, "request">) =>
  (name: string): string | undefined => {
    const value = headers[name];
    return Array.isArray(value) ? value[0] : value;
  };

/**
 * A header of the answer takes precedence over one of its route, and that one over those of all
 * answers. They are written at once, because Node checks and keeps each header that is set before.
 */
export const send = (
  { response, requestId, always, own }: Visit,
  status: number,
  headers: OutgoingHttpHeaders,
  body?: string | Buffer,
): void => {
  if (response.headersSent || response.destroyed) return;
  const head: OutgoingHttpHeader[] = ["X-Request-Id", requestId];
  for (const [name, value] of ALWAYS) if (headers[name] === undefined) head.push(name, value);
  for (const name in always) if (headers[name] === undefined) head.push(name, always[name]!);
  for (const name in own) head.push(name, own[name]!);
  if (body !== undefined) head.push("Content-Length", Buffer.byteLength(body));
  else if (status !== 204) head.push("Content-Length", 0);
  for (const name in headers) if (headers[name] !== undefined) head.push(name, headers[name]!);
  response.writeHead(status, head).end(body);
};

const handleOf = (route: DirectRoute | undefined, method = ""): Handle => {
  if (route === undefined) throw new Problem("not_found", "no such path on this host");
  const { methods } = route;
  const asked = method === "HEAD" ? "GET" : method;
  if (Object.hasOwn(methods, asked)) return methods[asked as Method]!;
  const allowed = [...new Set([...Object.keys(methods), ...(methods.GET ? ["HEAD"] : []), "OPTIONS"])].join(", ");
  if (method === "OPTIONS") return (visit) => send(visit, 204, { Allow: allowed });
  throw new Problem("method_not_allowed", `this path takes ${allowed}`, { headers: { Allow: allowed } });
};

type Place = Pick<Visit, "path" | "query" | "rest" | "always">;

/** A client behind a proxy has as many addresses as it likes; proxies are few. */
const PEERS_REMEMBERED = 1_000;

/** Each proxy address is checked once and not with each request. */
const visits = (trustedProxies: readonly string[]) => {
  const isTrusted = proxyaddr.compile(trustedProxies);
  const peers = new Map<string, boolean>();
  const trust = (address: string, index: number): boolean => {
    // Index 0 is the peer that is connected to us; the others come from the header.
    if (index > 0) return isTrusted(address, index);
    const known = peers.get(address);
    if (known !== undefined) return known;
    if (peers.size >= PEERS_REMEMBERED) peers.clear();
    const answer = isTrusted(address, index);
    peers.set(address, answer);
    return answer;
  };
  const isBehind = trustedProxies.length > 0;
  return (request: IncomingMessage, response: ServerResponse, place: Place): Visit => {
    const { headers, socket } = request;
    const peer = socket.remoteAddress ?? "";
    const forwarded = isBehind && trust(peer, 0) ? headers["x-forwarded-proto"] : undefined;
    // Field by field: a spread with more fields behind it is a slow object (request-terms.ts).
    return {
      request,
      response,
      path: place.path,
      query: place.query,
      rest: place.rest,
      always: place.always,
      own: none,
      host: headers.host !== undefined && HOST.test(headers.host) ? headers.host.toLowerCase() : "",
      address: isBehind ? proxyaddr(request, trust) : peer,
      isSecure: (socket as TLSSocket).encrypted || protocolIn(forwarded) === "https",
      requestId: requestIdOf(headers),
    };
  };
};

const protocolIn = (forwarded: string | string[] | undefined): string | undefined =>
  (typeof forwarded === "string" ? forwarded : forwarded?.[0])?.split(",")[0]?.trim();

const answerProblem = (visit: Visit, error: unknown, log: Log): void => {
  if (error instanceof SenderGone || visit.response.headersSent) return void visit.response.destroy();
  const problem = problemOf(error);
  if (problem.kind === "internal") log.error("request.failed", { request_id: visit.requestId, error });
  const { status, headers, body } = problemAnswer(problem, visit);
  send(visit, status, headers, body);
};
