// Keeps one child running: it is spawned, waited for until it is healthy, started again with
// back-off when it dies, and ended on request.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "../runtime/lock.ts";
import { until } from "../runtime/timing/wait-until.ts";
import { type Child, endProcess, isPaused, processorSecondsOf, signal, spawnChild } from "./child.ts";
import type { Roster } from "./roster.ts";
import type { Command } from "./service.ts";

export interface Charge {
  readonly name: string;
  readonly log: string;
  readonly command: () => Command;
  readonly healthy: () => Promise<void>;
  /** Runs before every spawn and repairs the remains of a killed predecessor. */
  readonly prepare: () => Promise<void>;
  readonly env: () => Readonly<Record<string, string | undefined>>;
  /** Without progress: a start that still works has as much time again. */
  readonly readyWithinMs: number;
  readonly stopSignal: NodeJS.Signals;
  readonly stopWithinMs: number;
  /** Cancels the first start before its deadline. */
  readonly signal?: AbortSignal | undefined;
}

/** Events of children, for the log and the screen. `text` is one sentence. */
export type KeeperEvent =
  | { readonly kind: "child.started"; readonly name: string; readonly pid: number; readonly text: string }
  | { readonly kind: "child.ready"; readonly name: string; readonly pid: number; readonly text: string }
  | { readonly kind: "child.died"; readonly name: string; readonly text: string }
  | { readonly kind: "child.stopped"; readonly name: string; readonly text: string };

export interface KeptProcess {
  readonly name: string;
  readonly pid: () => number | undefined;
  readonly signal: (name: NodeJS.Signals) => boolean;
  readonly state: () => "running" | "paused" | "starting";
  /**
   * Ends the child, by force after `withinMs`, and starts it again; resolves when it is healthy.
   * Concurrent calls share one restart.
   */
  readonly restart: (withinMs?: number) => Promise<void>;
  /** Resolves when the child is healthy (again). */
  readonly ready: (deadlineMs?: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

// docs/design/laws.md L4: 20 s for an orderly end; the supervisor waits a little longer before it
// kills.
export const STOP_MS = 22_000;

// 0.25, 0.5, 1, 2, 4, 8, then every 10 s: a store that needs a moment is back at once, and one that
// cannot start does not fill the disk with logs.
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
// A child that was healthy for this long starts again with the shortest pause.
const FORGIVEN_AFTER_MS = 60_000;

/** One child and its life. */
class Keeper implements KeptProcess {
  readonly #charge: Charge;
  readonly #roster: Roster;
  readonly #tell: (event: KeeperEvent) => void;
  readonly #changed: () => void;
  readonly #leaving = new AbortController();
  #child: Child | undefined;
  #isWell = false;
  #isStopping = false;
  #restarting: Promise<void> | undefined;
  #deaths = 0;
  #watching: Promise<void> = Promise.resolve();

  constructor(charge: Charge, roster: Roster, tell: (event: KeeperEvent) => void, changed: () => void) {
    this.#charge = charge;
    this.#roster = roster;
    this.#tell = tell;
    this.#changed = changed;
  }

  get name(): string {
    return this.#charge.name;
  }

  readonly pid = (): number | undefined => (this.#isWell ? this.#child?.pid : undefined);
  readonly signal = (by: NodeJS.Signals): boolean => this.#child !== undefined && signal(this.#child, by);
  readonly state = (): ReturnType<KeptProcess["state"]> => {
    // A process that has just died is not known to have ended yet.
    if (!this.#isWell || this.#child === undefined || !isAlive(this.#child)) return "starting";
    return isPaused(this.#child.pid) ? "paused" : "running";
  };
  readonly restart = (withinMs?: number): Promise<void> => {
    this.#restarting ??= this.#startAgain(withinMs).finally(() => {
      this.#restarting = undefined;
      // Whatever the result, the running process is watched, and a dead one is started again with
      // back-off.
      this.#watching = this.#watch();
    });
    return this.#restarting;
  };
  readonly ready = (deadlineMs = this.#charge.readyWithinMs): Promise<void> =>
    until(`${this.name} is ready`, deadlineMs, () => {
      if (!this.#isWell) throw new Error(`${this.name} is not running`);
      return this.#charge.healthy();
    });
  readonly stop = async (): Promise<void> => {
    this.#isStopping = true;
    this.#leaving.abort(new Error("the stack is being stopped"));
    await this.#end();
    await this.#restarting?.catch(() => undefined);
    await this.#watching;
    // A successor may have been starting when the stop came.
    await this.#end();
    this.#changed();
  };

  async begin(): Promise<void> {
    try {
      await this.#start();
    } catch (error) {
      await this.#end();
      throw error;
    }
    this.#watching = this.#watch();
  }

  async #start(): Promise<void> {
    const { name } = this;
    const charge = this.#charge;
    await charge.prepare();
    const began = performance.now();
    const born = await spawnChild(charge.command(), charge.log, charge.env());
    this.#child = born;
    this.#roster.add(name, born);
    this.#tell({ kind: "child.started", name, pid: born.pid, text: `${name} starts as process ${born.pid}.` });
    const died = new AbortController();
    void born.exited.then(({ code, signal: by }) =>
      died.abort(new Error(`${name} ended ${by === null ? `with code ${code}` : `by ${by}`}`)),
    );
    const ends = [died.signal, this.#leaving.signal, ...(charge.signal ? [charge.signal] : [])];
    try {
      const worksOn = working(born, charge.readyWithinMs);
      await until(`${name} is ready`, charge.readyWithinMs, charge.healthy, AbortSignal.any(ends), worksOn);
      // It may have died while its last answer was under way.
      died.signal.throwIfAborted();
    } catch (error) {
      throw new Error(`${(error as Error).message}; ${lastWords(charge.log, born.logFrom())}`, { cause: error });
    }
    this.#isWell = true;
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    this.#tell({ kind: "child.ready", name, pid: born.pid, text: `${name} is ready after ${seconds} s.` });
    this.#changed();
  }

  async #end(withinMs = this.#charge.stopWithinMs): Promise<void> {
    const { name } = this;
    this.#isWell = false;
    if (this.#child === undefined) return;
    const wentByItself = await endProcess(this.#child, this.#charge.stopSignal, withinMs);
    this.#roster.remove(name);
    this.#child = undefined;
    const late = `${name} did not end within ${withinMs / 1000} s and was killed.`;
    this.#tell({ kind: "child.stopped", name, text: wentByItself ? `${name} has stopped.` : late });
  }

  get #isLeft(): boolean {
    return this.#isStopping || this.#restarting !== undefined;
  }

  /** Waits for the death of the child and starts the next one, until the caller stops it. */
  async #watch(): Promise<void> {
    while (!this.#isLeft && this.#child !== undefined) {
      const wellSince = performance.now();
      const { code, signal: by } = await this.#child.exited;
      if (this.#isLeft) return;
      this.#isWell = false;
      this.#deaths = performance.now() - wellSince > FORGIVEN_AFTER_MS ? 1 : this.#deaths + 1;
      this.#changed();
      await this.#bringBack(by === null ? `exited with code ${code}` : `was ended by ${by}`);
    }
  }

  /** `how` describes its death. */
  async #bringBack(how: string): Promise<void> {
    const { name } = this;
    for (let isBack = false; !isBack && !this.#isLeft; ) {
      const pause = Math.min(FIRST_PAUSE_MS * 2 ** (this.#deaths - 1), LONGEST_PAUSE_MS);
      this.#tell({ kind: "child.died", name, text: `${name} ${how}; it is started again in ${pause / 1000} s.` });
      await sleep(pause, undefined, { signal: this.#leaving.signal }).catch(() => undefined);
      if (this.#isLeft) return;
      try {
        await this.#start();
        isBack = true;
      } catch (error) {
        if (this.#isLeft) return;
        this.#deaths += 1;
        this.#tell({ kind: "child.died", name, text: `${name} did not come back: ${(error as Error).message}` });
        await this.#kill();
      }
    }
  }

  async #startAgain(withinMs?: number): Promise<void> {
    await this.#end(withinMs);
    await this.#watching;
    // A successor may have been starting when the restart came.
    await this.#end(withinMs);
    try {
      await this.#start();
    } catch (error) {
      await this.#kill();
      throw error;
    }
  }

  async #kill(): Promise<void> {
    if (this.#child !== undefined) await endProcess(this.#child, "SIGKILL", 5_000);
  }
}

/**
 * Starts a child and resolves when it is healthy. @throws Error when it dies or is not healthy
 * before its first deadline: one sentence, the last line of its log, and where the log is.
 */
export async function keep(
  charge: Charge,
  roster: Roster,
  tell: (event: KeeperEvent) => void,
  changed: () => void,
): Promise<KeptProcess> {
  const keeper = new Keeper(charge, roster, tell, changed);
  await keeper.begin();
  return keeper;
}

/**
 * Returns a function that says whether the child has worked since it was last asked. A machine with
 * forty busy processes gives each of them a twentieth of a core, and an app that only waits for
 * something uses less than a hundredth.
 */
const working = ({ pid }: Child, everyMs: number): (() => boolean) => {
  const began = performance.now();
  let before = 0;
  return () => {
    const now = processorSecondsOf(pid) ?? before;
    const gained = now - before;
    before = now;
    return gained * 1_000 > everyMs * WORKING_SHARE && performance.now() - began < LONGEST_START_MS;
  };
};
const WORKING_SHARE = 0.02;
const LONGEST_START_MS = 600_000;

/** The end of what was logged from this byte on, short enough for one line on a screen. */
function lastWords(log: string, from: number): string {
  const lines = readFileSync(log).subarray(from).toString("utf8").trimEnd().split("\n");
  const output =
    lines.findLast((line) => /error|fatal|exception|refused|denied|not found/i.test(line) && !/^\s+at /.test(line)) ??
    lines.at(-1) ??
    "";
  return `${output === "" ? "it said nothing" : `it said: ${output.slice(0, 400)}`} (log: ${log})`;
}
