// The HTTP servers of apps: plain, or TLS 1.3 from certificate files that are read again when they
// change.
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer, type Server as SecureServer } from "node:https";
import type { Log } from "../runtime/log.ts";

/** PEM files of a certificate chain and its private key. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly log: Pick<Log, "info" | "error">;
  /** Called with the certificate at the start, and whenever another one is used. */
  readonly onUse?: (certificate: string) => void;
  /** How often the files are checked. */
  readonly lookMs?: number;
}

// Certificates are renewed days before they end. A check reads both files, a few kilobytes, and so
// sees changes on volumes that report none; a watch would miss a renewal before it begins.
const LOOK_MS = 10_000;

/** The same limit as for the headers of a request; Node's default is 120 s. */
const HANDSHAKE_MS = 10_000;

/**
 * Makes a server that does not listen yet. Throws if the files cannot be read or do not belong
 * together: an app must not start with a broken certificate.
 */
export const httpServer = (options: ServerOptions, listener: RequestListener, tls?: TlsFiles): Server | SecureServer =>
  tls === undefined ? createServer(options, listener) : secureServer(options, listener, tls);

interface Certificate {
  readonly cert: string;
  readonly key: string;
}
const contextOf = (certificate: Certificate) => ({ ...certificate, minVersion: "TLSv1.3" as const });
const stateOf = ({ cert, key }: Certificate): string => cert + key;

const found = async ({ certFile, keyFile }: TlsFiles): Promise<Certificate | Error> => {
  try {
    const [cert, key] = await Promise.all([readFile(certFile, "utf8"), readFile(keyFile, "utf8")]);
    return { cert, key };
  } catch (error) {
    return error as Error;
  }
};

/**
 * New connections use the changed files, and open ones keep theirs. Unusable files are logged once,
 * and the former certificate stays in use.
 */
const secureServer = (options: ServerOptions, listener: RequestListener, tls: TlsFiles): SecureServer => {
  const first = { cert: readFileSync(tls.certFile, "utf8"), key: readFileSync(tls.keyFile, "utf8") };
  const server = createSecureServer({ ...options, ...contextOf(first), handshakeTimeout: HANDSHAKE_MS }, listener);
  tls.onUse?.(first.cert);
  let seen = stateOf(first);
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    const now = await found(tls);
    isLooking = false;
    const state = now instanceof Error ? now.message : stateOf(now);
    if (state === seen) return;
    seen = state;
    try {
      if (now instanceof Error) throw now;
      server.setSecureContext(contextOf(now));
      tls.onUse?.(now.cert);
      tls.log.info("tls.renewed");
    } catch (error) {
      tls.log.error("tls.not_renewed", { error });
    }
  };
  const looks = setInterval(() => void look(), tls.lookMs ?? LOOK_MS).unref();
  server.once("close", () => clearInterval(looks));
  return server;
};

/** Returns both files or none: infra/runtime/environment.ts refuses one without the other. */
export const tlsOf = (
  {
    TLS_CERT_FILE: certFile,
    TLS_KEY_FILE: keyFile,
  }: { readonly TLS_CERT_FILE?: string | undefined; readonly TLS_KEY_FILE?: string | undefined },
  log: Log,
): { readonly tls?: TlsFiles } =>
  certFile === undefined || keyFile === undefined ? {} : { tls: { certFile, keyFile, log } };
