// The HTTP servers of apps: plain, or TLS 1.3 from certificate files that are read again when they
// change.
import { readFileSync, type StatsListener, unwatchFile, watchFile } from "node:fs";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { Log } from "./log.ts";

/** PEM files of a certificate chain and its private key. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly log: Pick<Log, "info" | "error">;
  /** How often the files are looked at. */
  readonly lookMs?: number;
}

// Certificates are renewed days before they end; a look costs two stat calls, and polling sees
// files on volumes that tell of no change.
const LOOK_MS = 10_000;

/** As long as the headers of a request may take; Node's default is 120 s. */
const HANDSHAKE_MS = 10_000;

/**
 * Not listening yet. Throws when the files cannot be read or do not belong together: an app must
 * not start with a broken certificate.
 */
export const httpServer = (options: ServerOptions, listener: RequestListener, tls?: TlsFiles): Server | SecureServer =>
  tls === undefined ? createServer(options, listener) : secureServer(options, listener, tls);

const read = ({ certFile, keyFile }: TlsFiles) => ({
  cert: readFileSync(certFile),
  key: readFileSync(keyFile),
  minVersion: "TLSv1.3" as const,
});

/**
 * Changed files are taken for new connections, those that are open stay; unusable ones are logged
 * and the former certificate goes on.
 */
const secureServer = (options: ServerOptions, listener: RequestListener, tls: TlsFiles): SecureServer => {
  const server = createSecureServer({ ...options, ...read(tls), handshakeTimeout: HANDSHAKE_MS }, listener);
  const renew: StatsListener = () => {
    try {
      server.setSecureContext(read(tls));
      tls.log.info("tls.renewed");
    } catch (error) {
      tls.log.error("tls.not_renewed", { error });
    }
  };
  const files = [tls.certFile, tls.keyFile];
  for (const file of files) watchFile(file, { interval: tls.lookMs ?? LOOK_MS, persistent: false }, renew);
  // Each its own listener: the port and the side port of one app watch the same files.
  server.once("close", () => {
    for (const file of files) unwatchFile(file, renew);
  });
  return server;
};

/** Both files or none: infra/runtime/environment.ts refuses one without the other. */
export const tlsOf = (
  {
    TLS_CERT_FILE: certFile,
    TLS_KEY_FILE: keyFile,
  }: { readonly TLS_CERT_FILE?: string | undefined; readonly TLS_KEY_FILE?: string | undefined },
  log: Log,
): { readonly tls?: TlsFiles } =>
  certFile === undefined || keyFile === undefined ? {} : { tls: { certFile, keyFile, log } };
