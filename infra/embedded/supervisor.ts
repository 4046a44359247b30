// Starts the embedded stack and the apps on it, keeps them running, and stops what it started in
// reverse order.
import { rmSync } from "node:fs";
import { type App, chargeOfApp } from "./app.ts";
import { stackConfig } from "./config.ts";
import { type Door, openDoor } from "./control-door.ts";
import { type Crew, openCrew } from "./crew.ts";
import { emptyHome, lockHome, openHome } from "./home.ts";
import { STOP_MS } from "./keep-running.ts";
import { choosePorts } from "./ports.ts";
import { killListed, openRoster, type Roster } from "./roster.ts";
import { type Run, runFile } from "./run-file.ts";
import type { ServiceName } from "./service.ts";
import { appVariables, type Layout, layOut, type StackOptions, type Step, type StepContext } from "./stack-layout.ts";

export type { Run } from "./run-file.ts";
export type { StackEvent, StackOptions, Step } from "./stack-layout.ts";
export type { App };

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
   * Sends a signal to a service or app, SIGKILL by default; true if it was alive. It is started
   * again by itself.
   */
  readonly kill: (name: string, signal?: NodeJS.Signals) => boolean;
  readonly restart: (name: string) => Promise<void>;
  /** Resolves when a service or app is healthy (again). */
  readonly ready: (name: string, deadlineMs?: number) => Promise<void>;
  /** Starts one more app, or a stopped one. */
  readonly start: (app: App) => Promise<void>;
  /**
   * Stops one service or app, which then stays down; without a name it stops everything, in reverse
   * order. Resolves when it is gone.
   */
  readonly stop: (name?: string) => Promise<void>;
}

// The limit for a first start on a cold disk: the broker loads 50 MB of classes, the engine maps
// 566 MB. It is twice the time of the slowest machine that was tried.
const SERVICE_READY_MS = 60_000;
// A process that is restarted because it hangs rarely ends by itself; ten seconds let a store that
// is only slow flush its data.
const RESTART_STOP_MS = 10_000;

/**
 * Starts services, then steps, then apps, and resolves when all are ready. If anything fails,
 * everything that was started is stopped again. @throws Error in one sentence that names the cure
 * if there is one.
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
    // The reason of the failed start is reported; the next start ends processes that could not be
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

const openCrewDoor = (crew: Crew): Promise<Door> =>
  openDoor({
    restart: (name) => crew.known(name).restart(RESTART_STOP_MS),
    signal: (name, by) => crew.known(name).signal(by),
    stop: crew.stop,
    start: crew.startAgain,
    status: crew.status,
  });

const runStep = async (step: Step, layout: Layout, publish: StepContext["publish"]) => {
  const { options, tell, env, place } = layout;
  options.signal?.throwIfAborted();
  tell({ kind: "step.started", name: step.name, text: `${step.name} ...` });
  const began = performance.now();
  await step.run({ env, home: place.home.folder, publish });
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

/**
 * Services start together, each as soon as the services that it needs are ready; the first failure
 * is reported.
 */
async function startServices({ own, place, config }: Layout, add: Crew["add"]): Promise<void> {
  const ready = new Map<ServiceName, Promise<void>>();
  // One after the other, because two of them would otherwise fetch the same jars.
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

/**
 * Waits for all and not for the first: everything that is still starting must be known before it is
 * stopped again.
 */
async function settled(starts: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(starts);
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}
