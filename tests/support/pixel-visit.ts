// A site with the pixel's snippet, and a pixel host that records every request: both counterparts
// of the browser's script. Site and host are *.localhost, which browsers send to this machine and
// treat as secure.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { PixelEvent } from "../../browser/delivery/queue.ts";
import { snippetOf } from "../../modules/catalog/pixel/snippet.ts";

/** One event as it arrived: the kind of request, and the fields of its envelope. */
export interface Arrived extends Omit<PixelEvent, "props"> {
  readonly props: Readonly<Record<string, any>>;
  readonly cid: number;
  readonly by: "post" | "gif";
  readonly cookies: string;
}

export interface SitePage {
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const GIF = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");
export const CLIENT = 7;
/** What a host says of a client that has changed nothing. */
export const USUAL: Readonly<Record<string, unknown>> = { consent_default: 0xff, auto_signals: true };

/**
 * The snippet that a client pastes, for a pixel host of the test. `options` adds settings, e.g.
 * ",x:true".
 */
export const snippet = (pixel: string, options = "", nonce = ""): string =>
  snippetOf(CLIENT, pixel)
    .replace(`client_id: ${CLIENT}`, `client_id: ${CLIENT}${options}`)
    .replace("<script>", `<script nonce="${nonce}">`);

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
};

const eventsIn = (text: string): readonly any[] => {
  const { events, ...envelope } = JSON.parse(text) as { readonly events: readonly any[] };
  return events.map((event) => ({ ...envelope, ...event }));
};

const eventInQuery = (query: URLSearchParams): any => {
  const event: Record<string, any> = { props: {} };
  for (const [name, value] of query)
    if (name.startsWith("p.")) event.props[name.slice(2)] = value;
    else event[name] = name === "props" || name === "consent" ? JSON.parse(value) : value;
  return event;
};

const cors = (request: IncomingMessage): Record<string, string> => ({
  "Access-Control-Allow-Origin": request.headers.origin ?? "*",
  "Access-Control-Allow-Credentials": "true",
});

export type Visit = Awaited<ReturnType<typeof openVisit>>;

/** Serves until `close`. `pages` is keyed by path and may be changed while it runs. */
export const openVisit = async () => {
  execFileSync(process.execPath, ["scripts/pixel.mjs"]);
  const pages = new Map<string, SitePage>();
  const arrived: Arrived[] = [];
  const state = { isDown: false, status: 204, config: USUAL, hasConfig: true };
  /**
   * Each test has its own site, so events that a page of an earlier test still sends are not
   * recorded.
   */
  let number = 0;
  const domain = (): string => `tienda${number}.localhost`;

  const record = (events: readonly any[], by: Arrived["by"], request: IncomingMessage): void => {
    if (!`${request.headers.host}`.startsWith(`px.${domain()}:`)) return;
    for (const event of events) arrived.push({ ...event, by, cookies: request.headers.cookie ?? "" });
  };
  const answerPixel = async (request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> => {
    if (/^\/(r|vitals)\.js$/.test(url.pathname)) {
      response.setHeader("Content-Type", "text/javascript");
      response.end(readFileSync(`dist/pixel${url.pathname}`));
    } else if (state.isDown) request.socket.destroy();
    else if (url.pathname === "/config" && !state.hasConfig) response.writeHead(503).end();
    else if (url.pathname === "/config") response.writeHead(200, cors(request)).end(JSON.stringify(state.config));
    else if (url.pathname === "/e" && request.method === "POST") {
      const body = await bodyOf(request);
      if (state.status === 204) record(eventsIn(body), "post", request);
      response.writeHead(state.status, cors(request)).end();
    } else if (url.pathname === "/e") {
      record([eventInQuery(url.searchParams)], "gif", request);
      response.writeHead(200, { "Content-Type": "image/gif", "Cache-Control": "no-store" }).end(GIF);
    } else response.writeHead(404).end();
  };
  const answerSite = (response: ServerResponse, url: URL): void => {
    const page = pages.get(url.pathname);
    if (page === undefined) response.writeHead(404).end();
    else
      response
        .writeHead(200, { "Content-Type": "text/html; charset=utf-8", ...page.headers })
        .end(`<!doctype html><html><head>${page.html}</html>`);
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", `http://${request.headers.host}`);
    if (url.hostname.startsWith("px.")) void answerPixel(request, response, url);
    else answerSite(response, url);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const of = (t: string): readonly Arrived[] => arrived.filter((event) => event.t === t);

  return {
    get domain() {
      return domain();
    },
    get site() {
      return `http://www.${domain()}:${port}`;
    },
    get pixel() {
      return `http://px.${domain()}:${port}`;
    },
    pages,
    arrived,
    state,
    /** An ordinary page: the snippet, the content after it, and enough text to scroll. */
    page: (path: string, body = "", options = "") => {
      pages.set(path, {
        html: `<title>${path}</title>${snippet(`http://px.${domain()}:${port}`, options)}</head><body>${body}</body>`,
      });
    },
    of,
    /** Ids of the distinct events of a type: an event that was sent twice counts once. */
    ids: (t: string): readonly string[] => [...new Set(of(t).map((event) => event.event_id))],
    /** Waits for so many distinct events of a type, and resolves with the last of them. */
    until: async (t: string, count = 1): Promise<Arrived> => {
      const distinct = () => [...new Map(of(t).map((event) => [event.event_id, event])).values()];
      await expect.poll(() => distinct().length, { timeout: 20_000 }).toBeGreaterThanOrEqual(count);
      return distinct()[count - 1]!;
    },
    reset: (): void => {
      number += 1;
      arrived.length = 0;
      pages.clear();
      Object.assign(state, { isDown: false, status: 204, config: USUAL, hasConfig: true });
    },
    close: async (): Promise<void> => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};

/** All errors that the page itself can see. */
export const pageErrors = (page: Page): readonly string[] => {
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.stack || error.message || "an error without text"));
  page.on("crash", () => errors.push("the page crashed"));
  return errors;
};
