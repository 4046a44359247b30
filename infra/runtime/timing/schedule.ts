// Does a piece of work again and again, never twice at once, with a pause that leaves the machine
// to others.
import { classify } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Resource } from "../scope.ts";

export interface Schedule {
  readonly name: string;
  /** The shortest pause between two runs. */
  readonly pauseMs: number;
  /**
   * The pause counts from the beginning of a run: it begins every `pauseMs`, unless it takes longer
   * than that.
   */
  readonly fromStart?: boolean;
  /**
   * How many times longer than the run before it a pause is at least: 9 leaves nine tenths of the
   * time to others. A run that failed has waited for a store rather than worked, and asks for no
   * rest: after ten seconds of a silent ClickHouse rollups would stand still for a minute and a
   * half.
   */
  readonly rest?: number;
  /** How long that pause may be, asked behind each run; by default 20 s. */
  readonly longestRestMs?: () => number;
  /** After so long without a run that got through it does not work; by default `SILENT_MS`. */
  readonly silentMs?: number;
  /**
   * Does what waits and answers how much that was; "busy" when another process is at it. Stops
   * early when `isClosing` says so.
   */
  readonly work: (isClosing: () => boolean) => Promise<number | "busy">;
  /** What waits now, and for how many seconds the oldest of it. */
  readonly waiting?: () => Promise<{ readonly count: number; readonly seconds: number }>;
}

export interface RunningSchedule {
  /** Milliseconds since a run last ended without an error. */
  readonly silentMs: () => number;
}

/**
 * A schedule without a successful run for so long does not work, whatever the cause; each fault has
 * to be over within 60 s (docs/design/laws.md L1).
 */
export const SILENT_MS = 120_000;
/** A gauge need not be asked for more often than it is scraped. */
const BACKLOG_MS = 5_000;
/** What was stored must show within the minute (law L1), also when one run was slow. */
export const LONGEST_REST_MS = 20_000;

/**
 * Starts at once; `stop` waits for the run under way. A run that fails is logged and counted, and
 * the next one tries again: a schedule has no event to lose, what it left undone still waits. A
 * warning where it may heal by itself, an error where an operator must look.
 */
export const keepDoing = (schedule: Schedule, ports: SchedulePorts): Resource<RunningSchedule> => {
  const { pauseMs, fromStart = false, rest = 0, longestRestMs = () => LONGEST_REST_MS } = schedule;
  let isClosing = false;
  let timer: NodeJS.Timeout | undefined;
  let wake: () => void = () => undefined;
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
  readonly metrics: Pick<Metrics, "countRun" | "setBacklog">;
}

/** The runs of a schedule, each counted and its failure logged. */
const runsOf = ({ name, work, waiting }: Schedule, { log, metrics }: SchedulePorts, isClosing: () => boolean) => {
  let doneAt = performance.now();
  let askedAt = Number.NEGATIVE_INFINITY;
  /** True when it has worked, and not failed. */
  const once = async (): Promise<boolean> => {
    const startedAt = performance.now();
    const counted = (done: number, isFailed: boolean) =>
      metrics.countRun({ schedule: name, done, isFailed, seconds: (performance.now() - startedAt) / 1_000 });
    try {
      const done = await work(isClosing);
      if (waiting !== undefined && startedAt - askedAt >= BACKLOG_MS) {
        askedAt = startedAt;
        metrics.setBacklog(name, await waiting());
      }
      doneAt = performance.now();
      counted(done === "busy" ? 0 : done, false);
      return true;
    } catch (error) {
      counted(0, true);
      log[classify(error) === "transient" ? "warn" : "error"]("schedule.failed", { schedule: name, error });
      return false;
    }
  };
  return { once, silentMs: () => performance.now() - doneAt };
};
