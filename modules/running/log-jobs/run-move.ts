// Carries out a claimed job with the same code as the command line, under the id that the job got
// when it was requested.
import type { Redis } from "ioredis";
import { systemClock } from "../../../infra/runtime/timing/retry.ts";
import { type OperationPorts, resumeOperation } from "../../base/operations/operations.ts";
import type { Holds } from "../../log/rewind/hold.ts";
import { relearnStage } from "../../log/rewind/relearn.ts";
import { relearnable, relearnPorts } from "../../log/rewind/relearn-ports.ts";
import { RewindRefused, rewindGroup } from "../../log/rewind/rewind.ts";
import { findGroup, type RewindSources, refuseBehind, rewindPorts } from "../../log/rewind/rewind-ports.ts";
import { auditOf as auditOfReprocess } from "../../money/reprocess/running/apply.ts";
import type { Move } from "./move.ts";
import { expectOurs, reportMove, type TakenMove } from "./moves.ts";
import { rewindToOf } from "./plan.ts";
import { settingsOf } from "./reprocess-plan.ts";

export interface RunPorts {
  readonly rewinding: RewindSources;
  readonly redis: Redis;
  /** The prefix of the memory keys of stages. */
  readonly memoryPrefix: string;
  /** Aborted when this process must stop; the next process does the rest. */
  readonly signal: AbortSignal;
  readonly onStep: (text: string) => void;
  readonly onProgress: (done: number, total: number) => void;
}
type GroupMove = Exclude<Move, { readonly move: "replay" | "reprocess" }>;

/** The identity of the job in the audit. */
const auditOf = ({ request, actor }: TakenMove, group: string) => ({
  kind: request.move as GroupMove["move"],
  actor,
  target: request.move === "relearn" ? `${request.target} in ${group}` : group,
  reason: request.reason,
});

/**
 * Resolves when the job is done and stored as completed. Rejects with the signal's reason, with
 * RewindRefused when nothing was touched, and with any other error; in that last case nothing is
 * stored, because the same call may continue.
 */
export const runMove = async (taken: TakenMove, ports: RunPorts): Promise<void> => {
  const { rewinding, signal } = ports;
  const request = taken.request as GroupMove;
  const hosting = await findGroup(rewinding, request.target);
  const { group } = hosting;
  const watched = watching(taken, ports, group);
  const held = await watched.holds.of(group);
  if (taken.is_held && held?.operation !== taken.operation_id)
    throw new RewindRefused(`${group} was released by hand: plan it again`);
  const clock = { ...systemClock, sleep: (ms: number) => systemClock.sleep(ms, signal) };
  const own = { operation: taken.operation_id, actor: taken.actor, reason: request.reason };
  const more = { onStep: ports.onStep, onProgress: ports.onProgress, clock, ...watched };
  if (request.move === "relearn") {
    const asked = { ...own, stage: relearnable(rewinding.topology, request.target).name, ...hosting };
    await relearnStage({ ...relearnPorts(rewinding, ports.redis, ports.memoryPrefix, asked), ...more }, asked);
    return;
  }
  refuseBehind(request.target, hosting);
  const to = rewindToOf(request.from);
  await rewindGroup(
    { ...rewindPorts(rewinding), ...more },
    { ...own, ...hosting, to, text: request.from, isPartial: request.partial },
  );
};

type EndOperation = (
  operation: string,
  request: { readonly actor: string },
  phase: "succeeded" | "failed" | "refused",
  detail: object,
) => Promise<void>;

/** Wraps the holds and the end of the job, so that its row is updated with them. */
const watching = (
  taken: TakenMove,
  { rewinding: { pool, audit, ...rest } }: RunPorts,
  group: string,
): { readonly holds: Holds; readonly ended: EndOperation } => {
  const { holds } = rewindPorts({ pool, audit, ...rest });
  const isOwn = (operation: string) => operation === taken.operation_id;
  return {
    holds: {
      ...holds,
      take: async (hold) => {
        await holds.take(hold);
        await reportMove(pool, taken, { is_held: true });
      },
      end: async (operation) => {
        // A crash between the two: the hold is found again and continued.
        if (isOwn(operation)) await reportMove(pool, taken, { is_held: false });
        await holds.end(operation);
      },
    },
    // A hold of another job whose group had caught up is ended under its own id. The caller stores
    // a failure, since it knows whether the same call continues.
    ended: async (operation, request, phase, detail) => {
      if (!isOwn(operation)) {
        const { actor } = request;
        return resumeOperation(audit, operation, { ...auditOf(taken, group), actor }).end(phase, detail);
      }
      if (phase !== "succeeded") return;
      await expectOurs(reportMove(pool, taken, {}));
      await resumeOperation(audit, operation, auditOf(taken, group)).end("succeeded", detail);
      // Stored before the hold ends, so that a completed job does not start again.
      await expectOurs(reportMove(pool, taken, { status: "completed", verdict: verdictOf(detail) }));
    },
  };
};

const verdictOf = (detail: object): string => {
  const { seconds } = detail as { readonly seconds?: number };
  return `all of it was read again${seconds === undefined ? "" : `, followed for ${seconds.toFixed(1)} s`}`;
};

/** A comparison leaves no entry in the audit, because it changes nothing. */
const auditOfMove = (taken: TakenMove) => {
  const request = taken.request as Exclude<Move, { readonly move: "replay" }>;
  if (request.move !== "reprocess") return auditOf(taken, request.target);
  return request.writes === null ? undefined : auditOfReprocess(settingsOf(request), taken.actor);
};

/** Stores the end of a job that was not completed: the audit first. */
export const endMove = async (
  { pool, audit }: { readonly pool: RewindSources["pool"]; readonly audit: OperationPorts },
  taken: TakenMove,
  status: "failed" | "refused",
  problem: string,
): Promise<void> => {
  const kept = auditOfMove(taken);
  if (kept !== undefined) await resumeOperation(audit, taken.operation_id, kept).end(status, { problem });
  await reportMove(pool, taken, { status, verdict: problem.slice(0, 500) });
};
