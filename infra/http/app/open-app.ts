// The frame of every app: its metrics and its side port, opened first and closed last; its main
// port; and the moment from which it is ready.
import { X509Certificate } from "node:crypto";
import type { RequestListener } from "node:http";
import type { Environment } from "../../runtime/environment.ts";
import { need } from "../../runtime/errors.ts";
import type { Log } from "../../runtime/log.ts";
import { type Metrics, openMetrics } from "../../runtime/metrics.ts";
import { closing, type Scope } from "../../runtime/scope.ts";
import { commitOf, versionOf } from "../../runtime/version.ts";
import { listen } from "../listen.ts";
import { tlsOf } from "../tls.ts";
import { type Check, openOps } from "./side-port.ts";

export interface AppOpening<Config> {
  readonly scope: Scope;
  readonly config: Config;
  readonly log: Log;
}
type Sides = Environment<"OPS_PORT" | "TLS_CERT_FILE" | "TLS_KEY_FILE">;
type Serves = Sides & Environment<"HOST" | "PORT">;

/** The checks of readiness, by name. */
type Checks = Readonly<Record<string, Check>>;

export interface App {
  readonly startedAt: number;
  readonly version: string;
  readonly metrics: Metrics;
  /**
   * Called last. From then on these checks decide readiness, and it turns red first when the app
   * closes. The fields are logged.
   */
  readonly ready: (checks: Checks, fields?: Readonly<Record<string, unknown>>) => Promise<void>;
}

/** Null if the text is no certificate; of a chain the first ends it. */
const endOf = (certificate: string): number | null => {
  try {
    return Date.parse(new X509Certificate(certificate).validTo);
  } catch {
    return null;
  }
};

/** Until the app is ready, /readyz says `until`; /livez and /metrics answer already. */
export const openApp = async (
  app: string,
  { scope, config, log }: AppOpening<Sides>,
  until = "the app is starting",
): Promise<App> => {
  const startedAt = Date.now();
  const version = versionOf();
  const metrics = openMetrics({ app, version, commit: commitOf() });
  const asked: Record<string, Check> = { started: () => need(false, until) };
  const { tls } = tlsOf(config, log);
  const onUse = (certificate: string): void => metrics.setExpiry(endOf(certificate));
  const ops = await scope.open("ops", async () =>
    closing(await openOps({ ...config.OPS_PORT, metrics, checks: asked, ...(tls && { tls: { ...tls, onUse } }) })),
  );
  return {
    startedAt,
    version,
    metrics,
    ready: async (checks, fields = {}) => {
      await scope.open("readiness", () => ({ value: ops, stop: ops.drain }));
      Object.assign(asked, checks);
      delete asked.started;
      log.info("app.started", { version, ...fields, ops_port: ops.port });
    },
  };
};

/** Opens the port of an app, and returns its number. */
export const serve = async (
  { scope, config, log }: AppOpening<Serves>,
  listener: RequestListener,
): Promise<{ readonly port: number }> => {
  const { HOST: host, PORT: port } = config;
  const server = await scope.open("server", async () =>
    closing(await listen(listener, { host, port, ...tlsOf(config, log) })),
  );
  return { port: server.port };
};
