// Starts the embedded stack and the apps on it, keeps them running, and stops what it started in
// reverse order.
import { rmSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { AppLogin } from "../postgres/logins.ts";
import type { ControlAddress } from "../runtime/stack-control.ts";
import { type App, appUrls, chargeOfApp } from "./app.ts";
import { type StackConfig, stackConfig } from "./config.ts";
import { type Door, openDoor } from "./control-door.ts";
import { type Crew, openCrew } from "./crew.ts";
import { emptyHome, type Home, lockHome, openHome, secretsOf, writeJson } from "./home.ts";
import { type KeeperEvent, STOP_MS } from "./keep-running.ts";
import { choosePorts } from "./ports.ts";
import { killListed, openRoster, type Roster } from "./roster.ts";
import type { Address, Place, Service, ServiceName } from "./service.ts";
import { clickhouse } from "./services/clickhouse.ts";
import { identity } from "./services/identity.ts";
import { type Brokers, kafkaBrokers } from "./services/kafka.ts";
import { mail } from "./services/mail.ts";
import { postgres } from "./services/postgres.ts";
import { redis } from "./services/redis.ts";
import { registry } from "./services/registry.ts";

export type { App };

/** Work between the services and the apps: topics, schemas, migrations, seed. */
export interface Step {
  readonly name: string;
  readonly run: (stack: StepContext) => Promise<void>;
}

interface StepContext {
  /** The variables that children get: addresses of all services, passwords, TRIBUTARY_SECRET. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder of the stack. */
  readonly home: string;
  /** Where each app will answer, by its name. */
  readonly urls: Readonly<Record<string, string>>;
  /** Adds what a seed has made to `run.json` under `demo`. */
  readonly publish: (demo: Readonly<Record<string, unknown>>) => void;
}

/**
 * `.tributary/run.json`. A `pid` is null for a server that runs outside or is being started again.
 */
export interface Run {
  readonly ready: boolean;
  readonly apps: Readonly<
    Record<string, { readonly url: string; readonly ops_url: string; readonly pid: number | null }>
  >;
  readonly services: Readonly<Partial<Record<ServiceName, Address & { readonly pid: number | null }>>>;
  readonly demo: Readonly<Record<string, unknown>>;
  /** Where processes are restarted, stopped and paused by name: infra/runtime/stack-control.ts. */
  readonly control: ControlAddress;
}

export type StackEvent =
  | KeeperEvent
  | { readonly kind: "stack.note" | "stack.ready" | "stack.stopping" | "stack.stopped"; readonly text: string }
  | { readonly kind: "step.started" | "step.done"; readonly name: string; readonly text: string };

export interface StackOptions {
  /** The folder of the stack; by default `.tributary/` in the repository. */
  readonly home?: string;
  /** Begin with an empty folder: what an earlier stack left is ended and removed. For tests. */
  readonly fresh?: boolean;
  /**
   * Which services to run; by default all. A service named in the environment (KAFKA_BROKERS ...)
   * is used and not started.
   */
  readonly services?: readonly ServiceName[];
  /** Of the log, by default 1. Those behind the first are called kafka-2, kafka-3. */
  readonly brokers?: Brokers;
  readonly steps?: readonly Step[];
  readonly apps?: readonly App[];
  readonly onEvent?: (event: StackEvent) => void;
  /**
   * Ports that are published instead of a service's own: the caller listens there and passes on
   * what it likes. For fault tests.
   */
  readonly fronts?: Readonly<Partial<Record<ServiceName, number>>>;
  readonly config?: StackConfig;
  /** Stops the start halfway; what was started is stopped again. */
  readonly signal?: AbortSignal;
}

export interface Stack {
  /** The content of `run.json` now. */
  readonly run: Run;
  /**
   * The variables that children get, by name: KAFKA_BROKERS, CLICKHOUSE_URL, POSTGRES_URL,
   * POSTGRES_ADMIN_URL, REDIS_URL ...
   */
  readonly env: Readonly<Record<string, string>>;
  readonly home: string;
  readonly pid: (name: string) => number | undefined;
  /**
   * Sends a signal to a service or app, by default SIGKILL; true when it was alive. It is started
   * again by itself.
   */
  readonly kill: (name: string, signal?: NodeJS.Signals) => boolean;
  readonly restart: (name: string) => Promise<void>;
  /** Resolves when a service or app is well (again). */
  readonly ready: (name: string, deadlineMs?: number) => Promise<void>;
  /** Starts one more app, or one that was stopped before. */
  readonly start: (app: App) => Promise<void>;
  /**
   * Stops one service or app, which then stays down; without a name everything, in reverse order.
   * Resolves when it is gone.
   */
  readonly stop: (name?: string) => Promise<void>;
}

const others: readonly Service[] = [postgres, clickhouse, redis, registry, identity, mail];

// First start on a cold disk: the broker loads 50 MB of classes, the engine maps 566 MB. Twice what
// the slowest machine tried needed.
const SERVICE_READY_MS = 60_000;
// What is restarted because it hangs rarely ends by itself; ten seconds let a store that is only
// slow flush what it holds.
const RESTART_STOP_MS = 10_000;

/**
 * Starts services, then steps, then apps, and resolves when all are ready; whatever fails, what was
 * started is stopped again.
 * @throws Error in one sentence that names the cure where there is one.
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const config = options.config ?? stackConfig();
  const home = openHome(options.home ?? config.TRIBUTARY_HOME);
  const tell = options.onEvent ?? (() => undefined);
  const release = lockHome(home);
  // A process that ends without stopping its stack (a crash, a second Ctrl-C) must not leave a
  // gigabyte of servers behind.
  const abandon = () => killListed(home);
  process.once("exit", abandon);
  const unlock = () => {
    process.off("exit", abandon);
    release();
  };
  try {
    const { roster, reclaimed } = await openRoster(home);
    for (const { name, pid } of reclaimed) {
      const text = `${name} (process ${pid}) was left behind by an earlier start and was ended.`;
      tell({ kind: "stack.note", text });
    }
    if (options.fresh === true) emptyHome(home);
    rmSync(home.path("run.json"), { force: true });
    const layout = await layOut(options, config, home, tell);
    return await raise(layout, roster, unlock).finally(layout.releasePorts);
  } catch (error) {
    rmSync(home.path("run.json"), { force: true });
    unlock();
    throw error;
  }
}

/** What is started, and on which ports. */
interface Layout {
  readonly options: StackOptions;
  readonly config: StackConfig;
  readonly tell: (event: StackEvent) => void;
  readonly place: Place;
  readonly ports: Record<string, number>;
  /** To be called when everything listens, or nothing will. */
  readonly releasePorts: () => void;
  /** Services that the stack names, whether it runs them or not. */
  readonly wanted: readonly Service[];
  readonly own: readonly Service[];
  readonly env: Record<string, string>;
}

const layOut = async (
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
  for (const service of own) Object.assign(env, service.variables({ ...place, ports: { ...ports, ...fronts } }));
  return { options, config, tell, place, ports, releasePorts: release, wanted, own, env };
};

async function raise(layout: Layout, roster: Roster, unlock: () => void): Promise<Stack> {
  const { options, place, tell, env } = layout;
  const crew = openCrew({ roster, tell, changed: () => file.publish(), signal: options.signal });
  const file = runFile(layout, crew);
  let door: Door | undefined;
  let stopping: Promise<void> | undefined;
  const stopEverything = async (): Promise<void> => {
    tell({ kind: "stack.stopping", text: "The stack is being stopped." });
    file.remove();
    await door?.close();
    await crew.stopAll().finally(unlock);
    tell({ kind: "stack.stopped", text: "Everything has stopped." });
  };
  try {
    door = await openCrewDoor(crew);
    file.opened(door);
    await startServices(layout, crew.add);
    file.publish();
    for (const step of options.steps ?? []) await runStep(step, layout, file.addDemo);
    await settled((options.apps ?? []).map((app) => startApp(app, layout, crew, file)));
  } catch (error) {
    file.remove();
    await door?.close();
    // The reason of the failed start is what is reported; the next start ends what could not be
    // stopped.
    await crew.stopAll().catch(() => undefined);
    throw error;
  }
  file.ready();
  tell({ kind: "stack.ready", text: "The stack is ready." });
  return {
    get run() {
      return file.run();
    },
    env,
    home: place.home.folder,
    pid: (name) => crew.find(name)?.pid(),
    kill: (name, by = "SIGKILL") => crew.known(name).signal(by),
    restart: (name) => crew.known(name).restart(),
    ready: (name, deadlineMs) => crew.known(name).ready(deadlineMs),
    start: (app) => startApp(app, layout, crew, file),
    stop: async (name) => {
      if (name !== undefined) return crew.stop(name);
      stopping ??= stopEverything();
      await stopping;
    },
  };
}

/** `run.json`: what it says, written whenever that changes, and no more once it is removed. */
const runFile = ({ wanted, ports, config, env, place: { home } }: Layout, crew: Crew) => {
  let demo: Run["demo"] = {};
  let isReady = false;
  let isRemoved = false;
  let control: ControlAddress | undefined;
  const started = new Map<string, App>();
  const pidOf = (name: string): number | null => crew.find(name)?.pid() ?? null;
  const run = (): Run => ({
    ready: isReady,
    apps: Object.fromEntries(
      [...started.values()].map((app) => [app.name, { ...appUrls(ports, app, config), pid: pidOf(app.name) }]),
    ),
    services: Object.fromEntries(
      wanted.map((service) => [service.name, { ...service.address(env), pid: pidOf(service.name) }]),
    ),
    demo,
    control: control!,
  });
  const publish = (): void => {
    if (!isRemoved && control !== undefined) writeJson(home.path("run.json"), run());
  };
  return {
    run,
    publish,
    opened: ({ url, token }: ControlAddress): void => {
      control = { url, token };
    },
    addApp: (app: App): void => void started.set(app.name, app),
    addDemo: (made: Run["demo"]): void => {
      demo = { ...demo, ...made };
      publish();
    },
    ready: (): void => {
      isReady = true;
      publish();
    },
    remove: (): void => {
      isRemoved = true;
      rmSync(home.path("run.json"), { force: true });
    },
  };
};

const openCrewDoor = (crew: Crew): Promise<Door> =>
  openDoor({
    restart: (name) => crew.known(name).restart(RESTART_STOP_MS),
    signal: (name, by) => crew.known(name).signal(by),
    stop: crew.stop,
    start: crew.startAgain,
    status: crew.status,
  });

const runStep = async (step: Step, layout: Layout, publish: StepContext["publish"]) => {
  const { options, tell, env, place, ports, config } = layout;
  options.signal?.throwIfAborted();
  tell({ kind: "step.started", name: step.name, text: `${step.name} ...` });
  const began = performance.now();
  const urls = Object.fromEntries((options.apps ?? []).map((app) => [app.name, appUrls(ports, app, config).url]));
  await step.run({ env, home: place.home.folder, urls, publish });
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  tell({ kind: "step.done", name: step.name, text: `${step.name}: done in ${seconds} s.` });
};

const startApp = async (app: App, layout: Layout, crew: Crew, file: { readonly addApp: (app: App) => void }) => {
  const { ports, place, env, config } = layout;
  if (crew.has(app.name)) throw new Error(`${app.name} runs already.`);
  const missing = [app.name, `${app.name}-ops`].filter((name) => ports[name] === undefined);
  const { chosen, release } = await choosePorts(place.home, missing);
  for (const { name, port } of chosen) ports[name] = port;
  file.addApp(app);
  const ofApp = app.login === undefined ? {} : appVariables(app.login, layout);
  await crew.add(chargeOfApp(app, place, ports, { ...env, ...ofApp }, config)).finally(release);
};

/** Of the services that run here: who runs a server elsewhere gives each app its own address. */
const appVariables = (login: AppLogin, { own, place, ports, options }: Layout): Record<string, string> => {
  const published = { ...place, ports: { ...ports, ...options.fronts } };
  return Object.assign({}, ...own.map((service) => service.appVariables?.(published, login) ?? {}));
};

/**
 * Services start together, each as soon as those that it needs are ready; the first failure is the
 * one that is reported.
 */
async function startServices({ own, place, config }: Layout, add: Crew["add"]): Promise<void> {
  const ready = new Map<ServiceName, Promise<void>>();
  // One after the other: two of them would otherwise fetch the same jars.
  for (const service of own) await service.install(place);
  for (const service of own)
    ready.set(
      service.name,
      (async () => {
        await Promise.all(service.after.map((name) => ready.get(name)));
        await add({
          name: service.name,
          log: place.home.path("logs", `${service.name}.log`),
          command: () => service.command(place),
          healthy: () => service.healthy(place),
          prepare: () => service.prepare(place),
          env: () => ({
            PATH: config.PATH,
            HOME: config.inherited.HOME,
            TMPDIR: config.inherited.TMPDIR,
            JAVA_HOME: config.JAVA_HOME,
            JDK_JAVA_OPTIONS: config.inherited.JDK_JAVA_OPTIONS,
          }),
          readyWithinMs: SERVICE_READY_MS,
          stopSignal: service.stopSignal,
          stopWithinMs: STOP_MS,
        });
      })(),
    );
  await settled([...ready.values()]);
}

/** All, not the first: what is still starting must be known before everything is stopped again. */
async function settled(starts: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(starts);
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}

/**
 * Addresses of a server that runs outside; an owner's address that is not given is taken to be the
 * same as the app's.
 */
function outsideVariables(service: Service, { inherited }: StackConfig): Record<string, string> {
  const found: Record<string, string> = { [service.outside]: inherited[service.outside]! };
  if (service.name === "postgres") found.POSTGRES_ADMIN_URL = inherited.POSTGRES_ADMIN_URL ?? found.POSTGRES_URL!;
  return found;
}
