// The side port of every app: /livez answers for the process alone, /readyz for its named checks,
// and /metrics with its registry.

import type { RequestListener, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Metrics } from "../../runtime/metrics.ts";
import { isLoopback, refusalOf } from "../../runtime/same-machine.ts";
import { within } from "../../runtime/timing/time-limit.ts";
import { httpServer, type TlsFiles } from "../tls.ts";

export type Check = (() => string | undefined) | (() => Promise<void>) | (() => void);

export interface OpsSettings {
  /** 0 takes any free port. */
  readonly port: number;
  readonly host?: string;
  /**
   * A check that throws makes the app not ready; a sentence that it returns is shown in the report.
   * A check tests whether work gets done, not whether a socket is open.
   */
  readonly checks: Readonly<Record<string, Check>>;
  readonly metrics: Metrics;
  /** With certificate files the side port speaks TLS 1.3 too. */
  readonly tls?: TlsFiles;
}

export interface Ops {
  readonly port: number;
  /**
   * Turns readiness red for good; everything else continues. It is the first step of a shutdown:
   * open it last in the scope, so that it is closed first.
   */
  readonly drain: () => void;
  readonly close: () => Promise<void>;
}

// The stores are checked at most once a second, even if probes come more often.
const CACHED_MS = 1_000;
// Half of the shortest usual probe timeout, so that a store that hangs does not make /readyz hang.
const CHECK_MS = 2_000;

type Result = readonly [name: string, problem: string | null, note?: string];

export const openOps = async ({ port, host = "127.0.0.1", checks, metrics, tls }: OpsSettings): Promise<Ops> => {
  let isDraining = false;
  let asked: { readonly at: number; readonly results: Promise<readonly Result[]> } | undefined;

  const results = (): Promise<readonly Result[]> => {
    const now = performance.now();
    if (asked === undefined || now - asked.at > CACHED_MS)
      asked = { at: now, results: Promise.all(Object.entries(checks).map(([name, check]) => resultOf(name, check))) };
    return asked.results;
  };

  const readyz = async (response: ServerResponse): Promise<void> => {
    const all: readonly Result[] = isDraining ? [["draining", "the app is shutting down"]] : await results();
    const lines = all.map(([name, problem, note]) => `${name}: ${problem ?? note ?? "ok"}`);
    answer(response, all.every(([, problem]) => problem === null) ? 200 : 503, lines.join("\n") || "ok");
  };

  const answers: RequestListener = (request, response) => {
    if (request.method !== "GET" && request.method !== "HEAD") return answer(response, 405, "only GET");
    // Where the port is open to a network, any host name is accepted.
    const refusal = isLoopback(host) ? refusalOf(request.headers) : undefined;
    if (refusal !== undefined) return answer(response, 403, refusal);
    const path = request.url?.split("?")[0];
    if (path === "/livez") return answer(response, 200, "ok");
    if (path === "/readyz") return void readyz(response);
    if (path !== "/metrics") return answer(response, 404, "/livez, /readyz or /metrics");
    metrics.text().then(
      (text) => answer(response, 200, text, metrics.contentType),
      (error: Error) => answer(response, 500, error.message),
    );
  };
  const server = httpServer({}, answers, tls);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    drain: () => {
      isDraining = true;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

const answer = (response: ServerResponse, status: number, text: string, type = "text/plain; charset=utf-8"): void => {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(`${text}\n`);
};

const resultOf = async (name: string, check: Check): Promise<Result> => {
  try {
    const note = await within(CHECK_MS, Promise.resolve(check()), `no answer within ${CHECK_MS} ms`);
    return note ? [name, null, note] : [name, null];
  } catch (error) {
    return [name, (error as Error).message || (error as Error).name];
  }
};
