// apps/ingest/listen.ts - opens the port: plain or TLS 1.3, with time limits on slow senders, and closes it without dropping anybody who is being answered.
import { readFileSync, unwatchFile, watchFile } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Log } from "../../stream/log.ts";

export interface ListenSettings {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  readonly log: Log;
}
export interface Listening {
  readonly port: number;
  /** Takes no new connections, answers what is under way, then resolves. */
  readonly close: () => Promise<void>;
}

// 25 MiB within a minute is 3.5 Mbit/s; a sender of one byte a second is let go.
const REQUEST_MS = 60_000;
const HEADERS_MS = 10_000;
// Longer than the 60 s of the usual load balancers, so that they, not we, end an idle connection.
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16_384;

export const listen = async (answer: RequestListener, settings: ListenSettings): Promise<Listening> => {
  const limits = {
    requestTimeout: REQUEST_MS,
    headersTimeout: HEADERS_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  };
  let isClosing = false;
  const listener: RequestListener = (request, response) => {
    if (isClosing) response.setHeader("Connection", "close");
    answer(request, response);
  };
  const { tls } = settings;
  const server: Server | SecureServer =
    tls === undefined ? createServer(limits, listener) : secureServer(limits, listener, tls, settings.log);
  server.on("clientError", refuse);
  // What stands in an Expect header does not change what we do.
  server.on("checkExpectation", listener);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(settings.port, settings.host, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        isClosing = true;
        if (tls !== undefined) for (const file of [tls.certFile, tls.keyFile]) unwatchFile(file);
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
};

const read = (tls: { readonly certFile: string; readonly keyFile: string }) => ({
  cert: readFileSync(tls.certFile),
  key: readFileSync(tls.keyFile),
});

/** Certificates are renewed under a running process: changed files are taken for new connections, unusable ones are told and left. */
const secureServer = (limits: object, listener: RequestListener, tls: { certFile: string; keyFile: string }, log: Log): SecureServer => {
  const server = createSecureServer({ ...limits, ...read(tls), minVersion: "TLSv1.3" }, listener);
  const renew = (): void => {
    try {
      server.setSecureContext({ ...read(tls), minVersion: "TLSv1.3" });
      log.info("tls.renewed");
    } catch (error) {
      log.error("tls.not_renewed", { error });
    }
  };
  for (const file of [tls.certFile, tls.keyFile]) watchFile(file, { interval: 10_000, persistent: false }, renew);
  return server;
};

const BODY = JSON.stringify({
  type: "urn:tributary:problem:bad_request",
  title: "The request cannot be understood",
  status: 400,
  detail: "this is not an HTTP request that can be answered",
  code: "bad_request",
});

/** Bytes that are no HTTP request never reach a route; whoever sent them is told and the connection ends. */
const refuse = (_error: Error, socket: Socket): void => {
  if (!socket.writable) return void socket.destroy();
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(BODY)}\r\nConnection: close\r\n\r\n${BODY}`,
  );
};
