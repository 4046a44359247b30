// Keeps one child running: spawned, waited for until it is well, started again with back-off when
// it dies, ended when asked.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../runtime/timing/until.ts";
import { type Child, endProcess, isPaused, signal, spawnChild } from "./child.ts";
import type { Roster } from "./roster.ts";
import type { Command } from "./service.ts";

export interface Charge {
  readonly name: string;
  readonly log: string;
  readonly command: () => Command;
  readonly healthy: () => Promise<void>;
  /** Run before every spawn: mends what a killed predecessor left. */
  readonly prepare: () => Promise<void>;
  readonly env: () => Readonly<Record<string, string | undefined>>;
  readonly readyWithinMs: number;
  readonly stopSignal: NodeJS.Signals;
  readonly stopWithinMs: number;
  /** Ends the first start before its deadline. */
  readonly signal?: AbortSignal | undefined;
}

/** What happens to children, for the log and the screen. `text` is one sentence. */
export type KeeperEvent =
  | { readonly kind: "child.started"; readonly name: string; readonly pid: number; readonly text: string }
  | { readonly kind: "child.ready"; readonly name: string; readonly pid: number; readonly text: string }
  | { readonly kind: "child.died"; readonly name: string; readonly text: string }
  | { readonly kind: "child.stopped"; readonly name: string; readonly text: string };

export interface Kept {
  readonly name: string;
  readonly pid: () => number | undefined;
  readonly signal: (name: NodeJS.Signals) => boolean;
  readonly state: () => "running" | "paused" | "starting";
  /**
   * Ends the child, by force after `withinMs`, and starts it again; resolves when it is well. Two
   * at once are one.
   */
  readonly restart: (withinMs?: number) => Promise<void>;
  /** Resolves when the child is well (again). */
  readonly ready: (deadlineMs?: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

// docs/design/laws.md L4: 20 s for an orderly end; the supervisor waits a little longer before it
// kills.
export const STOP_MS = 22_000;

// 0.25, 0.5, 1, 2, 4, 8, then every 10 s: a store that needs a moment is back at once, one that
// cannot start does not fill the disk with logs.
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
// A child that was well for this long starts again with the shortest pause.
const FORGIVEN_AFTER_MS = 60_000;

/**
 * Starts a child and resolves when it is well.
 * @throws Error when it dies or stays unwell before its first deadline: one sentence, the last line
 * of its log, and where the log is.
 */
export async function keep(
  charge: Charge,
  roster: Roster,
  tell: (event: KeeperEvent) => void,
  changed: () => void,
): Promise<Kept> {
  const { name } = charge;
  let child: Child | undefined;
  let isWell = false;
  let isStopping = false;
  let restarting: Promise<void> | undefined;
  let deaths = 0;
  let watching: Promise<void> = Promise.resolve();
  const leaving = new AbortController();

  const start = async (): Promise<void> => {
    await charge.prepare();
    const began = performance.now();
    const born = await spawnChild(charge.command(), charge.log, charge.env());
    child = born;
    roster.add(name, born);
    tell({ kind: "child.started", name, pid: born.pid, text: `${name} starts as process ${born.pid}.` });
    const died = new AbortController();
    void born.exited.then(({ code, signal: by }) =>
      died.abort(new Error(`${name} ended ${by === null ? `with code ${code}` : `by ${by}`}`)),
    );
    try {
      await until(
        `${name} is ready`,
        charge.readyWithinMs,
        charge.healthy,
        AbortSignal.any([died.signal, leaving.signal, ...(charge.signal ? [charge.signal] : [])]),
      );
    } catch (error) {
      throw new Error(`${(error as Error).message}; ${lastWords(charge.log)}`, { cause: error });
    }
    isWell = true;
    tell({
      kind: "child.ready",
      name,
      pid: born.pid,
      text: `${name} is ready after ${((performance.now() - began) / 1000).toFixed(1)} s.`,
    });
    changed();
  };

  const end = async (withinMs = charge.stopWithinMs): Promise<void> => {
    isWell = false;
    if (child === undefined) return;
    const wentByItself = await endProcess(child, charge.stopSignal, withinMs);
    roster.remove(name);
    child = undefined;
    const late = `${name} did not end within ${withinMs / 1000} s and was killed.`;
    tell({ kind: "child.stopped", name, text: wentByItself ? `${name} has stopped.` : late });
  };

  /** Waits for the death of the child and starts the next one, until it is asked to stop. */
  const watch = async (): Promise<void> => {
    const isLeft = () => isStopping || restarting !== undefined;
    while (!isLeft() && child !== undefined) {
      const wellSince = performance.now();
      const { code, signal: by } = await child.exited;
      if (isLeft()) return;
      isWell = false;
      deaths = performance.now() - wellSince > FORGIVEN_AFTER_MS ? 1 : deaths + 1;
      const how = by === null ? `exited with code ${code}` : `was ended by ${by}`;
      changed();
      for (let isBack = false; !isBack && !isLeft(); ) {
        const pause = Math.min(FIRST_PAUSE_MS * 2 ** (deaths - 1), LONGEST_PAUSE_MS);
        tell({ kind: "child.died", name, text: `${name} ${how}; it is started again in ${pause / 1000} s.` });
        await sleep(pause, undefined, { signal: leaving.signal }).catch(() => undefined);
        if (isLeft()) return;
        try {
          await start();
          isBack = true;
        } catch (error) {
          if (isLeft()) return;
          deaths += 1;
          tell({ kind: "child.died", name, text: `${name} did not come back: ${(error as Error).message}` });
          if (child !== undefined) await endProcess(child, "SIGKILL", 5_000);
        }
      }
    }
  };

  const restart = async (withinMs?: number): Promise<void> => {
    await end(withinMs);
    await watching;
    // A successor that was being started when the restart came.
    await end(withinMs);
    try {
      await start();
    } catch (error) {
      if (child !== undefined) await endProcess(child, "SIGKILL", 5_000);
      throw error;
    }
  };

  try {
    await start();
  } catch (error) {
    await end();
    throw error;
  }
  watching = watch();
  return {
    name,
    pid: () => (isWell ? child?.pid : undefined),
    signal: (by) => child !== undefined && signal(child, by),
    state: () => (!isWell || child === undefined ? "starting" : isPaused(child.pid) ? "paused" : "running"),
    restart: (withinMs) => {
      restarting ??= restart(withinMs).finally(() => {
        restarting = undefined;
        // Whatever came of it, what runs now is watched, and what died is started again with
        // back-off.
        watching = watch();
      });
      return restarting;
    },
    ready: (deadlineMs = charge.readyWithinMs) =>
      until(`${name} is ready`, deadlineMs, () => {
        if (!isWell) throw new Error(`${name} is not running`);
        return charge.healthy();
      }),
    stop: async () => {
      isStopping = true;
      leaving.abort(new Error("the stack is being stopped"));
      await end();
      await restarting?.catch(() => undefined);
      await watching;
      // A successor that was being started when the stop came.
      await end();
      changed();
    },
  };
}

/** The end of a log, short enough for one line on a screen. */
function lastWords(log: string): string {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  const output =
    lines.findLast((line) => /error|fatal|exception|refused|denied|not found/i.test(line) && !/^\s+at /.test(line)) ??
    lines.at(-1) ??
    "";
  return `${output === "" ? "it said nothing" : `it said: ${output.slice(0, 400)}`} (log: ${log})`;
}
