// Starts the embedded stack and the apps on it, keeps them running, and stops what it started in
// reverse order.
import { rmSync } from "node:fs";
import { type App, chargeOfApp } from "./app.ts";
import { stackConfig } from "./config.ts";
import { type Door, openDoor } from "./control-door.ts";
import { type Crew, openCrew } from "./crew.ts";
import { keepVersions } from "./faults/data-versions.ts";
import { homeFaults } from "./faults/machine-faults.ts";
import { refuseStart, startFaults } from "./faults/start-faults.ts";
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
 * Starts services, then steps, then apps, and resolves when all are ready. What keeps it from
 * starting is named before the first process is; if anything fails later, everything that was
 * started is stopped again. @throws Error that names the cure if there is one.
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const config = options.config ?? stackConfig();
  const home = openHome(options.home ?? config.TRIBUTARY_HOME);
  const tell = options.onEvent ?? (() => undefined);
  refuseStart(homeFaults(home));
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
    try {
      refuseStart(await startFaults(layout));
      return await raise(layout, roster, unlock);
    } finally {
      layout.releasePorts();
    }
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
    await startServices(layout, crew);
    keepVersions(layout);
    file.publish();
    for (const step of options.steps ?? []) await runStep(step, layout, file.addDemo);
    await together(
      (options.apps ?? []).map((app) => startApp(app, layout, crew, file)),
      crew,
    );
    await untilAllRun(crew);
  } catch (error) {
    file.remove();
    await door?.close();
    // The reason of the failed start is reported; the next start ends processes that could not be
    // stopped.
    await crew.stopAll().catch(() => undefined);
    throw error;
  }
  file.ready();
  tell({ kind: "stack.ready", text: readyText(crew) });
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
async function startServices({ own, place, config }: Layout, crew: Crew): Promise<void> {
  const ready = new Map<ServiceName, Promise<void>>();
  for (const service of own)
    ready.set(
      service.name,
      (async () => {
        await Promise.all(service.after.map((name) => ready.get(name)));
        await crew.add({
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
  await together([...ready.values()], crew);
}

/**
 * Waits for all. The first failure ends the others, which may have minutes before them, and is
 * reported when none of them starts any more.
 */
async function together(starts: readonly Promise<void>[], crew: Crew): Promise<void> {
  try {
    await Promise.all(starts);
  } catch (error) {
    await crew.stopAll().catch(() => undefined);
    await Promise.allSettled(starts);
    throw error;
  }
}

/** A process that ends more often during a start would do so again. */
const MOST_ROUNDS = 3;

/**
 * A process that ended while the others were started, or hangs, is started again, as long as that
 * works on. @throws Error with its last words if it does not come back.
 */
async function untilAllRun(crew: Crew): Promise<void> {
  for (let round = 0; ; round += 1) {
    const gone = crew.status().filter(({ state }) => state === "starting" || state === "paused");
    const names = gone.map(({ name }) => name);
    if (names.length === 0) return;
    if (round === MOST_ROUNDS) throw new Error(`${names.join(", ")} ended again and again while the rest was started.`);
    await Promise.all(names.map((name) => crew.find(name)?.restart() ?? crew.startAgain(name)));
  }
}

const readyText = (crew: Crew): string => {
  const stopped = crew.status().flatMap(({ name, state }) => (state === "running" ? [] : name));
  return stopped.length === 0
    ? "The stack is ready."
    : `Not all of the stack runs: ${stopped.join(", ")} was stopped meanwhile.`;
};
