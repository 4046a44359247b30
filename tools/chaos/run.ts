// Runs cycles until the number, the time or a violation is reached, and writes the results to disk
// after each cycle.
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Plan, planOf, type StageMeans } from "./schedule.ts";
import { type Cycle, openSession } from "./session.ts";
import type { Target } from "./target.ts";
import { lineOf, type Summary, summaryOf } from "./verdicts.ts";

export interface RunSettings {
  readonly seed: number;
  /** Cycles with a proven fault; void ones are repeated and counted as void. */
  readonly cycles: number;
  readonly until?: number;
  readonly only: readonly string[];
  readonly available: StageMeans;
  /** The commit of the running code, kept with the results. */
  readonly commit: string;
  /** Folder for results, and for the logs of a cycle that broke a law. */
  readonly results: string;
  /** Gets one line a cycle; `detail` gets the faults and heals in between. */
  readonly tell: (text: string) => void;
  readonly detail: (text: string) => void;
  readonly goesOnAfterViolation?: boolean;
  readonly from?: number;
  /** The plan of cycle `n` after `proven` proven cycles; by default it is drawn from the seed. */
  readonly plan?: (n: number, proven: number) => Plan;
  /** The command that repeats a cycle. */
  readonly again?: (n: number) => string;
  /** Ends the run in the middle of a cycle, which is then not judged. */
  readonly leaving?: AbortSignal;
}

/** A fault that never takes effect must not keep the run going. */
const MOST_VOID = 10;

const write = (settings: RunSettings, cycles: readonly Cycle[], summary: Summary): void => {
  const { seed, commit, results, only } = settings;
  const content = { seed, commit, only, written_at: new Date().toISOString(), ...summary, each: cycles.map(briefOf) };
  writeFileSync(join(results, `seed-${seed}.json`), `${JSON.stringify(content, null, 2)}\n`);
};
const briefOf = ({ n, faults, broken, sent, answers, quietMs, seconds }: Cycle) => ({
  n,
  faults,
  broken,
  sent,
  answers,
  quietMs: Math.round(quietMs),
  seconds: Math.round(seconds),
});

/**
 * Returns undefined as soon as the signal fires; the result of the running work is then ignored.
 */
const unlessAborted = async <T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T | undefined> => {
  if (signal === undefined) return work();
  if (signal.aborted) return undefined;
  const aborted = new Promise<undefined>((resolve) => {
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
  const running = work();
  running.catch(() => undefined);
  return Promise.race([running, aborted]);
};

export const run = async (target: Target, settings: RunSettings): Promise<Summary> => {
  const { seed, available, only, tell, results } = settings;
  const again = settings.again ?? ((n) => `npm run test:guarantees -- --seed ${seed} --from ${n} --cycles 1`);
  mkdirSync(results, { recursive: true });
  const session = await openSession(target, seed, available.isOurs, settings.detail);
  const cycles: Cycle[] = [];
  try {
    for (let n = settings.from ?? 1; ; n += 1) {
      const summary = summaryOf(cycles);
      // Even a run that is shorter than its start checks the laws once.
      const isTimeUp = cycles.length > 0 && (settings.until ?? Number.POSITIVE_INFINITY) < Date.now();
      if (summary.cycles >= settings.cycles || isTimeUp) return summary;
      if (summary.voidCycles > MOST_VOID + summary.cycles)
        throw new Error("most cycles are void: the faults do not take effect on this machine");
      const plan = settings.plan?.(n, summary.cycles) ?? planOf(seed, n, available, only);
      const cycle = await unlessAborted(() => session.run(n, plan), settings.leaving);
      if (cycle === undefined) return summaryOf(cycles);
      cycles.push(cycle);
      tell(lineOf(cycle));
      write(settings, cycles, summaryOf(cycles));
      if (cycle.broken.length === 0) continue;
      for (const { id, says, evidence } of cycle.broken) tell(`  ${id} (${says}): ${evidence}`);
      const kept = join(results, `seed-${seed}-cycle-${n}`);
      cpSync(join(target.home, "logs"), join(kept, "logs"), { recursive: true });
      cpSync(target.folder, join(kept, "chaos"), { recursive: true });
      tell(`  logs and journal: ${kept}; again: ${again(n)}`);
      if (settings.goesOnAfterViolation !== true) return summaryOf(cycles);
    }
  } finally {
    await session.close();
  }
};
