// Starts the embedded stack and the apps on it, keeps them running, and stops what it started in
// reverse order.
import { rmSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { ControlAddress } from "../runtime/stack-control.ts";
import { type App, appUrls, chargeOfApp } from "./app.ts";
import { type StackConfig, stackConfig } from "./config.ts";
import { type Door, openDoor } from "./control-door.ts";
import { emptyHome, openHome, secretsOf, writeJson } from "./home.ts";
import { type Charge, type KeeperEvent, type Kept, keep, STOP_MS } from "./keep-running.ts";
import { lockHome } from "./lock.ts";
import { choosePorts } from "./ports.ts";
import { killListed, openRoster, type Roster } from "./roster.ts";
import type { Address, Place, Service, ServiceName } from "./service.ts";
import { clickhouse } from "./services/clickhouse.ts";
import { identity } from "./services/identity.ts";
import { kafka } from "./services/kafka.ts";
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

export interface StepContext {
  /** The variables that children get: addresses of all services, passwords, TRIBUTARY_SECRET. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder of the stack. */
  readonly home: string;
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
  /** The door through which processes are restarted, stopped and paused by name; see infra/runtime/stack-control.ts. */
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
  readonly steps?: readonly Step[];
  readonly apps?: readonly App[];
  readonly onEvent?: (event: StackEvent) => void;
  /**
   * Ports that everybody is told instead of a service's own: whoever starts the stack listens there
   * and passes on what he likes. For fault tests.
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

const SERVICES: readonly Service[] = [kafka, postgres, clickhouse, redis, registry, identity, mail];

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
  const children: Kept[] = [];
  const doors: Door[] = [];
  try {
    const { roster, reclaimed } = await openRoster(home);
    for (const orphan of reclaimed)
      tell({
        kind: "stack.note",
        text: `${orphan.name} (process ${orphan.pid}) was left behind by an earlier start and was ended.`,
      });
    if (options.fresh === true) emptyHome(home);
    rmSync(home.path("run.json"), { force: true });
    const wanted = SERVICES.filter(({ name }) => options.services?.includes(name) ?? true);
    const own = wanted.filter(
      ({ outside }) => config.inherited[outside] === undefined || config.inherited[outside] === "",
    );
    const apps = options.apps ?? [];
    const names = [...own.flatMap(({ ports }) => ports), ...apps.flatMap(({ name }) => [name, `${name}-ops`])];
    const ports: Record<string, number> = {};
    for (const { name, port, movedFrom } of await choosePorts(home, names)) {
      ports[name] = port;
      if (movedFrom !== undefined)
        tell({
          kind: "stack.note",
          text: `Port ${movedFrom} is used by another program; ${name} listens on ${port} from now on.`,
        });
    }
    const secrets = secretsOf(home);
    const env: Record<string, string> = {
      TRIBUTARY_SECRET: secrets.tributary,
      TRIBUTARY_HOME: home.folder,
      OBJECT_STORE_URL: pathToFileURL(home.path("objects")).href,
    };
    for (const service of wanted) Object.assign(env, own.includes(service) ? {} : outsideVariables(service, config));
    const fronts = options.fronts ?? {};
    const place: Place = {
      home,
      ports,
      fronts,
      secrets,
      env,
      machine: { path: config.PATH, javaHome: config.JAVA_HOME },
    };
    for (const service of own) Object.assign(env, service.variables({ ...place, ports: { ...ports, ...fronts } }));
    return await raise({
      ...options,
      apps,
      config,
      place,
      ports,
      roster,
      wanted,
      own,
      env,
      tell,
      unlock,
      children,
      doors,
    });
  } catch (error) {
    for (const door of doors) await door.close();
    // Why the start failed is what is to be told; whoever could not be stopped is ended by the next
    // start.
    await stopAll(children).catch(() => undefined);
    rmSync(home.path("run.json"), { force: true });
    unlock();
    throw error;
  }
}

interface Raising extends StackOptions {
  readonly apps: readonly App[];
  readonly config: StackConfig;
  readonly place: Place;
  readonly ports: Record<string, number>;
  readonly roster: Roster;
  readonly wanted: readonly Service[];
  readonly own: readonly Service[];
  readonly env: Record<string, string>;
  readonly tell: (event: StackEvent) => void;
  readonly unlock: () => void;
  readonly children: Kept[];
  /** The control door once it is open: closed by whoever gives up the start. */
  readonly doors: Door[];
}

async function raise(raising: Raising): Promise<Stack> {
  const { place, wanted, env, tell, children, config, roster, ports, signal } = raising;
  const { home } = place;
  let demo: Run["demo"] = {};
  let isReady = false;
  let stopping: Promise<void> | undefined;
  let door: Door | undefined;
  const started = new Map<string, App>();
  // In the order of starting; what is stopped and started again keeps its place.
  const charges = new Map<string, Charge>();
  const starting = new Map<string, Promise<void>>();
  const leaving = new AbortController();
  const given = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal]);

  const find = (name: string): Kept | undefined => children.find((child) => child.name === name);
  const known = (name: string): Kept => {
    const child = find(name);
    if (child === undefined)
      throw new Error(
        `Nothing of the name ${name} runs in this stack; there are ${children.map((one) => one.name).join(", ")}.`,
      );
    return child;
  };
  const run = (): Run => ({
    ready: isReady,
    apps: Object.fromEntries(
      [...started.values()].map((app) => [
        app.name,
        { ...appUrls(ports, app, config), pid: find(app.name)?.pid() ?? null },
      ]),
    ),
    services: Object.fromEntries(
      wanted.map((service) => [service.name, { ...service.address(env), pid: find(service.name)?.pid() ?? null }]),
    ),
    demo,
    control: { url: door!.url, token: door!.token },
  });
  const publish = () => {
    if (stopping === undefined) writeJson(home.path("run.json"), run());
  };
  const adopt = (charge: Charge): Promise<void> => {
    const work = adopted(charge).finally(() => starting.delete(charge.name));
    starting.set(charge.name, work);
    return work;
  };
  const adopted = async (charge: Charge): Promise<void> => {
    given.throwIfAborted();
    charges.set(charge.name, charge);
    children.push(await keep({ ...charge, signal: given }, roster, tell, publish));
    const places = [...charges.keys()];
    children.sort((a, b) => places.indexOf(a.name) - places.indexOf(b.name));
  };
  const stopOne = async (name: string): Promise<void> => {
    const child = known(name);
    await child.stop();
    children.splice(children.indexOf(child), 1);
    publish();
  };

  door = await openDoor({
    restart: (name) => known(name).restart(RESTART_STOP_MS),
    signal: (name, by) => known(name).signal(by),
    stop: stopOne,
    start: async (name) => {
      const charge = charges.get(name);
      if (charge === undefined) known(name);
      else if (find(name) === undefined) await (starting.get(name) ?? adopt(charge));
    },
    status: () =>
      [...charges.keys()].map((name) => ({
        name,
        pid: find(name)?.pid() ?? null,
        state: find(name)?.state() ?? (starting.has(name) ? "starting" : "stopped"),
      })),
  });
  raising.doors.push(door);
  await startServices(raising, adopt);
  publish();
  for (const step of raising.steps ?? []) {
    signal?.throwIfAborted();
    tell({ kind: "step.started", name: step.name, text: `${step.name} ...` });
    const began = performance.now();
    await step.run({
      env,
      home: home.folder,
      publish: (made) => {
        demo = { ...demo, ...made };
        publish();
      },
    });
    tell({
      kind: "step.done",
      name: step.name,
      text: `${step.name}: done in ${((performance.now() - began) / 1000).toFixed(1)} s.`,
    });
  }
  const startApp = async (app: App): Promise<void> => {
    if (find(app.name) !== undefined || starting.has(app.name)) throw new Error(`${app.name} runs already.`);
    const missing = [app.name, `${app.name}-ops`].filter((name) => ports[name] === undefined);
    for (const { name, port } of await choosePorts(home, missing)) ports[name] = port;
    started.set(app.name, app);
    await adopt(chargeOfApp(app, place, ports, env, config));
  };
  for (const app of raising.apps) await startApp(app);

  const stopEverything = async (): Promise<void> => {
    tell({ kind: "stack.stopping", text: "The stack is being stopped." });
    rmSync(home.path("run.json"), { force: true });
    await door?.close();
    // Who is being started would come when everybody else has gone.
    leaving.abort(new Error("the stack is being stopped"));
    await Promise.allSettled(starting.values());
    try {
      await stopAll(children);
    } finally {
      raising.unlock();
    }
    tell({ kind: "stack.stopped", text: "Everything has stopped." });
  };
  isReady = true;
  publish();
  tell({ kind: "stack.ready", text: "The stack is ready." });
  return {
    get run() {
      return run();
    },
    env,
    home: home.folder,
    pid: (name) => find(name)?.pid(),
    kill: (name, by = "SIGKILL") => known(name).signal(by),
    restart: (name) => known(name).restart(),
    ready: (name, deadlineMs) => known(name).ready(deadlineMs),
    start: startApp,
    stop: async (name) => {
      if (name !== undefined) return stopOne(name);
      stopping ??= stopEverything();
      await stopping;
    },
  };
}

/**
 * Services start together, each as soon as those that it needs are ready; the first failure is the
 * one that is told.
 */
async function startServices({ own, place, config }: Raising, adopt: (charge: Charge) => Promise<void>): Promise<void> {
  const ready = new Map<ServiceName, Promise<void>>();
  // One after the other: two of them would otherwise fetch the same jars.
  for (const service of own) await service.install(place);
  for (const service of own)
    ready.set(
      service.name,
      (async () => {
        await Promise.all(service.after.map((name) => ready.get(name)));
        await adopt({
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
          }),
          readyWithinMs: SERVICE_READY_MS,
          stopSignal: service.stopSignal,
          stopWithinMs: STOP_MS,
        });
      })(),
    );
  // All, not the first: whoever is still starting must be known before everything is stopped again.
  const results = await Promise.allSettled(ready.values());
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}

/**
 * Addresses of a server that runs outside; an owner's address that is not given is taken to be the
 * same as the app's.
 */
function outsideVariables(service: Service, { inherited }: StackConfig): Record<string, string> {
  const found: Record<string, string> = { [service.outside]: inherited[service.outside]! };
  if (service.name === "postgres") {
    found.POSTGRES_ADMIN_URL = inherited.POSTGRES_ADMIN_URL ?? found.POSTGRES_URL!;
    if (inherited.POSTGRES_APP_PASSWORD !== undefined) found.POSTGRES_APP_PASSWORD = inherited.POSTGRES_APP_PASSWORD;
  }
  return found;
}

/**
 * In reverse order of starting, one by one: an app must be able to flush into stores that still
 * run, and the registry needs its Kafka. All of them: one that cannot be stopped must not leave the
 * others running. Throws the first problem at the end.
 */
async function stopAll(children: Kept[]): Promise<void> {
  const problems: unknown[] = [];
  for (const child of children.toReversed()) await child.stop().catch((problem: unknown) => problems.push(problem));
  if (problems.length > 0) throw problems[0];
}
