// Repeats a piece of work, never twice at once, with a pause that leaves the machine to others.
import { classify } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Resource } from "../scope.ts";

export interface Schedule {
  readonly name: string;
  /** The shortest pause between two runs. */
  readonly pauseMs: number;
  /**
   * Counts the pause from the beginning of a run: a run begins every `pauseMs`, unless it takes
   * longer than that.
   */
  readonly fromStart?: boolean;
  /**
   * The least length of a pause in lengths of the previous run: 9 leaves nine tenths of the time to
   * others. A failed run has waited for a store and not worked, so it needs no rest: after ten
   * seconds of a silent ClickHouse, rollups would otherwise pause for a minute and a half.
   */
  readonly rest?: number;
  /** The longest such pause, asked after each run; 20 s by default. */
  readonly longestRestMs?: () => number;
  /**
   * After this long without a successful run the schedule counts as broken; `SILENT_MS` by default.
   */
  readonly silentMs?: number;
  /**
   * Does the waiting work and returns how much it was; "busy" when another process does it. Stops
   * early when `isClosing` says so.
   */
  readonly work: (isClosing: () => boolean) => Promise<number | "busy">;
  /** The number of waiting items, and the age of the oldest in seconds. */
  readonly waiting?: () => Promise<{ readonly count: number; readonly seconds: number }>;
}

export interface RunningSchedule {
  /** Milliseconds since a run last ended without an error. */
  readonly silentMs: () => number;
}

/**
 * A schedule without a successful run for this long is broken, whatever the cause; each fault has
 * to be over within 60 s (docs/design/laws.md L1).
 */
export const SILENT_MS = 120_000;
/** A gauge need not be asked for more often than it is scraped. */
const BACKLOG_MS = 5_000;
/** Stored data must show within the minute (law L1), also when one run was slow. */
export const LONGEST_REST_MS = 20_000;

/**
 * Starts at once; `stop` waits for the run under way. A failed run is logged and counted, and the
 * next one tries again: a schedule has no event to lose, because unfinished work still waits. The
 * log has a warning if the error may heal by itself, and an error if an operator must look.
 */
export const keepDoing = (schedule: Schedule, ports: SchedulePorts): Resource<RunningSchedule> => {
  const { pauseMs, fromStart = false, rest = 0, longestRestMs = () => LONGEST_REST_MS } = schedule;
  let isClosing = false;
  let timer: NodeJS.Timeout | undefined;
  let wake: () => void = () => undefined;
  ports.metrics.expect({ schedules: [schedule.name] });
  const runs = runsOf(schedule, ports, () => isClosing);
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      timer = setTimeout(resolve, ms);
    });
  const going = (async () => {
    while (!isClosing) {
      const startedAt = performance.now();
      const hasWorked = await runs.once();
      const took = performance.now() - startedAt;
      const restMs = hasWorked ? Math.min(rest * took, longestRestMs()) : 0;
      if (!isClosing) await pause(Math.max(pauseMs - (fromStart ? took : 0), restMs, 0));
    }
  })();
  return {
    value: { silentMs: runs.silentMs },
    stop: () => {
      isClosing = true;
      clearTimeout(timer);
      wake();
      return going;
    },
  };
};

interface SchedulePorts {
  readonly log: Pick<Log, "warn" | "error">;
  readonly metrics: Pick<Metrics, "countRun" | "setBacklog" | "expect">;
}

/** The runs of a schedule. Each is counted, and its failure is logged. */
const runsOf = ({ name, work, waiting }: Schedule, { log, metrics }: SchedulePorts, isClosing: () => boolean) => {
  let doneAt = performance.now();
  let askedAt = Number.NEGATIVE_INFINITY;
  /** Asked after a failed run too, since what waits matters most then. Unknown if that fails. */
  const showBacklog = async (): Promise<void> => {
    if (waiting === undefined || performance.now() - askedAt < BACKLOG_MS) return;
    askedAt = performance.now();
    try {
      metrics.setBacklog(name, await waiting());
    } catch (error) {
      metrics.setBacklog(name, null);
      throw error;
    }
  };
  /** True for a run without an error. */
  const once = async (): Promise<boolean> => {
    const startedAt = performance.now();
    const counted = (done: number, isFailed: boolean) =>
      metrics.countRun({ schedule: name, done, isFailed, seconds: (performance.now() - startedAt) / 1_000 });
    try {
      const done = await work(isClosing);
      await showBacklog();
      doneAt = performance.now();
      counted(done === "busy" ? 0 : done, false);
      return true;
    } catch (error) {
      counted(0, true);
      log[classify(error) === "transient" ? "warn" : "error"]("schedule.failed", { schedule: name, error });
      await showBacklog().catch(() => undefined);
      return false;
    }
  };
  return { once, silentMs: () => performance.now() - doneAt };
};
