// The parts of an embedded stack: its options, the services and apps that it starts, their ports
// and the variables that its children get.
import { pathToFileURL } from "node:url";
import type { AppLogin } from "../postgres/logins.ts";
import { type App, appUrls } from "./app.ts";
import type { StackConfig } from "./config.ts";
import { type Home, secretsOf } from "./home.ts";
import type { KeeperEvent } from "./keep-running.ts";
import { choosePorts } from "./ports.ts";
import type { Place, Service, ServiceName } from "./service.ts";
import { clickhouse } from "./services/clickhouse.ts";
import { identity } from "./services/identity.ts";
import { type Brokers, kafkaBrokers } from "./services/kafka.ts";
import { mail } from "./services/mail.ts";
import { payments } from "./services/payments.ts";
import { postgres } from "./services/postgres.ts";
import { redis } from "./services/redis.ts";
import { registry } from "./services/registry.ts";

/** Work between the services and the apps: topics, schemas, migrations, seed. */
export interface Step {
  readonly name: string;
  readonly run: (stack: StepContext) => Promise<void>;
}

export interface StepContext {
  /** The variables that children get: addresses of all services, passwords, TRIBUTARY_SECRET. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder of the stack. */
  readonly home: string;
  /** Adds data that a seed has made to `run.json` under `demo`. */
  readonly publish: (demo: Readonly<Record<string, unknown>>) => void;
}

export type StackEvent =
  | KeeperEvent
  | { readonly kind: "stack.note" | "stack.ready" | "stack.stopping" | "stack.stopped"; readonly text: string }
  | { readonly kind: "step.started" | "step.done"; readonly name: string; readonly text: string };

export interface StackOptions {
  /** The folder of the stack; by default `.tributary/` in the repository. */
  readonly home?: string;
  /**
   * Begins with an empty folder: processes of an earlier stack are ended, and its data removed. For
   * tests.
   */
  readonly fresh?: boolean;
  /**
   * The services to run; all by default. A service named in the environment (KAFKA_BROKERS ...) is
   * used and not started.
   */
  readonly services?: readonly ServiceName[];
  /** The number of brokers, 1 by default. Those after the first are called kafka-2 and kafka-3. */
  readonly brokers?: Brokers;
  readonly steps?: readonly Step[];
  readonly apps?: readonly App[];
  readonly onEvent?: (event: StackEvent) => void;
  /**
   * Ports that are published instead of a service's own: the caller listens there and passes on the
   * traffic that it likes. For fault tests.
   */
  readonly fronts?: Readonly<Partial<Record<ServiceName, number>>>;
  readonly config?: StackConfig;
  /** Cancels the start; started processes are stopped again. */
  readonly signal?: AbortSignal;
}

const others: readonly Service[] = [postgres, clickhouse, redis, registry, identity, mail, payments];

/** The processes to start, and their ports. */
export interface Layout {
  readonly options: StackOptions;
  readonly config: StackConfig;
  readonly tell: (event: StackEvent) => void;
  readonly place: Place;
  readonly ports: Record<string, number>;
  /** Call it when everything listens, or nothing will. */
  readonly releasePorts: () => void;
  /** Services of the stack, whether it runs them or not. */
  readonly wanted: readonly Service[];
  readonly own: readonly Service[];
  readonly env: Record<string, string>;
}

export const layOut = async (
  options: StackOptions,
  config: StackConfig,
  home: Home,
  tell: Layout["tell"],
): Promise<Layout> => {
  const isWanted = (name: ServiceName): boolean => options.services?.includes(name) ?? true;
  const brokers = isWanted("kafka") ? kafkaBrokers(options.brokers ?? 1) : [];
  const wanted = [...brokers, ...others.filter(({ name }) => isWanted(name))];
  const own = wanted.filter(({ outside }) => (config.inherited[outside] ?? "") === "");
  const apps = (options.apps ?? []).flatMap(({ name }) => [name, `${name}-ops`]);
  const ports: Record<string, number> = {};
  const { chosen, release } = await choosePorts(home, [...own.flatMap((one) => one.ports), ...apps]);
  for (const { name, port, movedFrom } of chosen) {
    ports[name] = port;
    if (movedFrom === undefined) continue;
    const text = `Port ${movedFrom} is used by another program; ${name} listens on ${port} from now on.`;
    tell({ kind: "stack.note", text });
  }
  const secrets = secretsOf(home);
  const env: Record<string, string> = {
    TRIBUTARY_SECRET: secrets.tributary,
    TRIBUTARY_HOME: home.folder,
    OBJECT_STORE_URL: pathToFileURL(home.path("objects")).href,
  };
  for (const service of wanted) Object.assign(env, own.includes(service) ? {} : outsideVariables(service, config));
  const fronts = options.fronts ?? {};
  const machine = { path: config.PATH, javaHome: config.JAVA_HOME };
  const place: Place = { home, ports, fronts, secrets, env, machine };
  for (const app of options.apps ?? [])
    if (app.publicUrl !== undefined)
      env[app.publicUrl] = config.inherited[app.publicUrl] || appUrls(ports, app, config).url;
  for (const service of own) Object.assign(env, service.variables({ ...place, ports: { ...ports, ...fronts } }));
  return { options, config, tell, place, ports, releasePorts: release, wanted, own, env };
};

/**
 * The variables of an app with its own login, for the servers that run here. The operator of an
 * external server sets the address of each app.
 */
export const appVariables = (login: AppLogin, { own, place, ports, options }: Layout): Record<string, string> => {
  const published = { ...place, ports: { ...ports, ...options.fronts } };
  return Object.assign({}, ...own.map((service) => service.appVariables?.(published, login) ?? {}));
};

/** Addresses of a server that runs outside; without an owner's address the app's is used. */
function outsideVariables(service: Service, { inherited }: StackConfig): Record<string, string> {
  const found: Record<string, string> = { [service.outside]: inherited[service.outside]! };
  if (service.name === "postgres") found.POSTGRES_ADMIN_URL = inherited.POSTGRES_ADMIN_URL ?? found.POSTGRES_URL!;
  return found;
}
