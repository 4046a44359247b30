// One process of the product in the stack: its module, its variables, and when it is ready.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { AppLogin } from "../postgres/logins.ts";
import { variables, variablesOfModule } from "../runtime/environment.ts";
import type { StackConfig } from "./config.ts";
import { type Charge, STOP_MS } from "./keep-running.ts";
import { isFree } from "./ports.ts";
import type { Place } from "./service.ts";
import { answersHttp } from "./services/http-health.ts";

/**
 * A process of the product: a compiled module, its arguments, and the path on its side port that
 * reports readiness.
 */
export interface App {
  readonly name: string;
  /** Relative to `dist/`, e.g. `apps/ingest/main.js`. */
  readonly module: string;
  readonly args?: readonly string[];
  /** Its login to the stores; without one it uses the login of the command line. */
  readonly login?: AppLogin;
  readonly env?: Readonly<Record<string, string>>;
  /** The variable that has its public address; where it is not set, every process gets the port. */
  readonly publicUrl?: string;
  /** The path of the readiness check on OPS_PORT; `/readyz` by default. */
  readonly ready?: string;
  readonly nodeArgs?: readonly string[];
}

// A worker is ready once every group has accepted it. A group waits a session (30 s for sinks) for
// a killed predecessor, and a rebalance and a session (60 s) for one that was killed while it
// joined. Giving up earlier would kill the next joiner, and so never end.
const READY_MS = 90_000;

/** What Node, its libraries and the machine need; also every NODE_*. */
const OF_MACHINE = ["PATH", "HOME", "TZ", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "SystemRoot"];

type Variables = Readonly<Record<string, string | undefined>>;
/**
 * Picks what an app reads, so that none has another's secrets, nor those of the shell. The program
 * of a test gets what any app reads. Never an owner's password.
 */
const ownVariables = ({ module }: App, given: Variables): Variables => {
  const own: readonly string[] = variablesOfModule(module) ?? Object.keys(variables);
  return Object.fromEntries(
    Object.entries(given).filter(
      ([name]) =>
        name !== "POSTGRES_ADMIN_URL" && (own.includes(name) || OF_MACHINE.includes(name) || name.startsWith("NODE_")),
    ),
  );
};

/** The compiled file of an app. */
export const moduleOf = ({ module }: App, { home }: Pick<Place, "home">): string => join(home.root, "dist", module);
export const missingModule = (file: string): string => `${file} is missing; compile first: npm run build.`;

/**
 * How the supervisor runs an app; `ports` has one port under its name and one under its name with
 * `-ops`.
 */
export function chargeOfApp(
  app: App,
  place: Place,
  ports: Record<string, number>,
  env: Record<string, string>,
  config: StackConfig,
): Charge {
  const { home } = place;
  const file = moduleOf(app, place);
  const appEnv = {
    PORT: String(ports[app.name]),
    OPS_PORT: String(ports[`${app.name}-ops`]),
    INSTANCE_NAME: app.name,
    LOG_LEVEL: config.LOG_LEVEL,
  };
  return {
    name: app.name,
    log: home.path("logs", `${app.name}.log`),
    command: () => ({
      file: process.execPath,
      args: [...(app.nodeArgs ?? []), file, ...(app.args ?? [])],
      cwd: home.root,
    }),
    healthy: () => answersHttp(`${appUrls(ports, app, config).ops_url}${app.ready ?? "/readyz"}`),
    prepare: async () => {
      if (!existsSync(file)) throw new Error(missingModule(file));
      // Another program there would answer for the app before the app has found its port taken.
      for (const port of [ports[app.name]!, ports[`${app.name}-ops`]!])
        if (!(await isFree(port)))
          throw new Error(`port ${port} of ${app.name} is used by another program; end it, or start the stack again.`);
    },
    env: () => ({ ...ownVariables(app, { ...config.inherited, ...env, ...appEnv }), ...app.env }),
    readyWithinMs: READY_MS,
    stopSignal: "SIGTERM",
    stopWithinMs: STOP_MS,
  };
}

export const appUrls = (ports: Readonly<Record<string, number>>, { name, env }: App, { inherited }: StackConfig) => {
  const scheme = (env?.TLS_CERT_FILE ?? inherited.TLS_CERT_FILE ?? "") === "" ? "http" : "https";
  return { url: `${scheme}://127.0.0.1:${ports[name]}`, ops_url: `${scheme}://127.0.0.1:${ports[`${name}-ops`]}` };
};
