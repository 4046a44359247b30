// Runs jobs one after the other while their leases last.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";
import { hit } from "#failpoint";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import {
  completeJob,
  failJob,
  giveBack,
  type JobKind,
  type Progress,
  reportProgress,
  type TakenJob,
  takeJob,
} from "./jobs.ts";

/** Stops the work without ending the job: another process has it, or will take it. */
class JobLeft extends Error {}

/**
 * Must be called at least once a minute. Throws JobLeft if another process has taken the job, or if
 * this one is closing; the progress is then not stored.
 */
export type Report = (progress: Progress) => Promise<void>;
interface Work<Result extends object = any> {
  /** Resolves with the result of the job. An earlier attempt may have stopped at any point. */
  readonly run: (job: TakenJob, report: Report) => Promise<Result>;
  /** Runs once, in the transaction that ends the job. The client is its tenant. */
  readonly completed?: (tx: PoolClient, job: TakenJob, result: Result) => Promise<void>;
}

export interface WorkOffPorts {
  readonly pool: Pool;
  readonly works: Readonly<Partial<Record<JobKind, Work>>>;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

/** A third of the lease. */
const RENEWED_MS = 20_000;
/** The pause after an outage of a store. */
const PAUSE_MS = 2_000;
const LOOK_MS = 200;
const MOST_LETTERS = 500;

/** Keeps the lease of a job by reporting its progress, and tells whether it was lost. */
const holdLease = (pool: Pool, job: TakenJob) => {
  let last: Progress = { done: job.done, total: null };
  let isLost = false;
  const renew = async (progress: Progress = last): Promise<void> => {
    isLost ||= !(await reportProgress(pool, job, progress));
  };
  const renewing = setInterval(() => void renew().catch(() => undefined), RENEWED_MS);
  return {
    report: async (progress: Progress): Promise<void> => {
      last = { done: progress.done, total: progress.total };
      await renew(progress);
    },
    isLost: (): boolean => isLost,
    end: (): void => clearInterval(renewing),
  };
};

/** Gives a job back after an outage of a store, which is not its fault; else ends it as failed. */
const leave = async ({ pool, log }: Pick<WorkOffPorts, "pool" | "log">, job: TakenJob, error: unknown) => {
  const isLeft = error instanceof JobLeft;
  if (isLeft || classify(error) === "transient") {
    if (!isLeft) log.warn("job.given_back", { job_id: job.job_id, kind: job.kind, error });
    await giveBack(pool, job).catch(() => undefined);
    if (!isLeft) await sleep(PAUSE_MS);
    return;
  }
  log.error("job.failed", { job_id: job.job_id, kind: job.kind, error });
  await failJob(pool, job, (error as Error).message.slice(0, MOST_LETTERS)).catch(() => undefined);
};

/** Runs a taken job. Never rejects: an error ends the job or gives it back. */
const runJob = async (ports: WorkOffPorts, job: TakenJob, isClosing: () => boolean): Promise<void> => {
  const { pool, works, log } = ports;
  const work = works[job.kind]!;
  const lease = holdLease(pool, job);
  const report: Report = async (progress) => {
    await lease.report(progress);
    if (lease.isLost() || isClosing()) throw new JobLeft();
  };
  try {
    hit("job-taken");
    const result = await work.run(job, report);
    hit("job-worked");
    await completeJob(pool, job, result, (tx) => work.completed?.(tx, job, result) ?? Promise.resolve());
    log.info("job.completed", { job_id: job.job_id, kind: job.kind });
  } catch (error) {
    await leave(ports, job, error);
  } finally {
    lease.end();
  }
};

/**
 * `turn` takes a job if there is one, and returns after at most `mostMs`, even if the job has not
 * ended; the next turn continues it. `stop` leaves the job to another process.
 */
export const workOff = (ports: WorkOffPorts) => {
  const owner = randomUUID();
  let isClosing = false;
  let current: Promise<void> | undefined;
  return {
    turn: async (mostMs: number, isOver: () => boolean): Promise<number> => {
      if (current === undefined) {
        const kinds = Object.keys(ports.works) as JobKind[];
        const job = isClosing ? undefined : await takeJob(ports.pool, kinds, owner);
        if (job === undefined) return 0;
        current = runJob(ports, job, () => isClosing).finally(() => {
          current = undefined;
        });
      }
      const until = performance.now() + mostMs;
      while (current !== undefined && performance.now() < until && !isOver())
        await Promise.race([current, sleep(LOOK_MS)]);
      return 1;
    },
    stop: async (): Promise<void> => {
      isClosing = true;
      await current;
    },
  };
};
