// The folder of a stack, its disk and its certificate, before anything is written or started.
import { accessSync, constants, existsSync, readdirSync, readFileSync, statfsSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Home } from "../home.ts";
import type { Layout } from "../stack-layout.ts";

const MIB = 1024 ** 2;
/** A first start writes less than half of it; below that servers end while they start. */
const LEAST_FREE_MIB = 512;
/** Folders of the servers and the edges; what else lies beside them is not written by a start. */
const WRITTEN = [
  "logs",
  "kafka",
  "kafka-2",
  "kafka-3",
  "postgres",
  "clickhouse",
  "redis",
  "objects",
  "spool",
  "mail",
  "identity",
];

const refusalAt = (path: string): string | undefined => {
  try {
    accessSync(path, constants.W_OK);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
};

/** A folder or log that another user has made, or a disk that is mounted read-only. */
const accessFaults = (home: Home): readonly string[] => {
  const logs = existsSync(home.path("logs")) ? readdirSync(home.path("logs")).map((log) => `logs/${log}`) : [];
  const refused = [".", ...WRITTEN.filter((name) => existsSync(home.path(name))), ...logs].flatMap((name) => {
    const code = refusalAt(home.path(name));
    return code === undefined ? [] : { path: home.path(name), code };
  });
  const [first, ...others] = refused;
  if (first === undefined) return [];
  const more = others.length === 0 ? "" : ` (and ${others.length} more below ${home.folder})`;
  const cure = "start as the user who made it, or set TRIBUTARY_HOME to another folder";
  return [`${first.path} cannot be written: ${first.code}${more}; ${cure}.`];
};

/** `room` is of the file system of the folder. */
export const diskFaults = (
  home: Home,
  room: { readonly bavail: number; readonly bsize: number } = statfsSync(home.folder),
): readonly string[] => {
  const free = Math.floor((room.bavail * room.bsize) / MIB);
  if (free >= LEAST_FREE_MIB) return [];
  const cure = "free some space, or set TRIBUTARY_HOME to a folder on a larger disk";
  return [`Only ${free} MiB are free at ${home.folder}, and a start needs ${LEAST_FREE_MIB}; ${cure}.`];
};

export const homeFaults = (home: Home): readonly string[] => [...accessFaults(home), ...diskFaults(home)];

/** The apps would end one by one on a certificate that cannot be used. */
export const certificateFault = ({ options, config: { inherited } }: Layout): readonly string[] => {
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = inherited;
  // One without the other is a problem of the configuration.
  if (!cert || !key || (options.apps ?? []).length === 0) return [];
  try {
    createSecureContext({ cert: readFileSync(cert), key: readFileSync(key) });
    return [];
  } catch (error) {
    const cure = "name a certificate chain and its own key, as PEM files that this user can read";
    return [`TLS_CERT_FILE and TLS_KEY_FILE cannot be used (${(error as Error).message}); ${cure}.`];
  }
};
