// Carries out requested reprocessing: compares a window and stores the differences, or writes the
// differences of a comparison.
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import { type Difference, differenceOf } from "../../money/reprocess/difference.ts";
import { type Limits, TooMuch } from "../../money/reprocess/ports.ts";
import { applyDifference, digestOf, refuseClosedMonths } from "../../money/reprocess/running/apply.ts";
import type { Opening, OpenReprocess } from "../../money/reprocess/running/open.ts";
import { summaryOf } from "../../money/reprocess/running/summary.ts";
import type { WriteResult } from "../../money/reprocess/write.ts";
import type { Reprocess } from "./move.ts";
import { expectOurs, reportMove, type TakenMove } from "./moves.ts";
import { settingsOf } from "./reprocess-plan.ts";
import type { RunPorts } from "./run-move.ts";

export interface ReprocessingPorts
  extends Pick<RunPorts, "signal" | "onStep" | "onProgress">,
    Pick<RunPorts["rewinding"], "pool"> {
  /** Opens connections for this job alone. */
  readonly open: (opening: Opening) => Promise<OpenReprocess>;
}

/** A keeper has a heap of 512 MiB and does other work in it. */
const LIMITS: Limits = { events: 5_000_000, claims: 60_000, changes: 20_000 };
const STEPS = {
  claims: "reads claims",
  events: "reads events",
  lines: "settles orders again",
  money: "computes commissions",
} as const;

/**
 * Resolves when the job is done and its row says so. Throws Refused when nothing was and will be
 * written; rejects with the signal's reason and with errors of its ports, after which the same call
 * may continue.
 */
export const runReprocess = async (taken: TakenMove, ports: ReprocessingPorts): Promise<void> => {
  const { pool, signal, onStep, onProgress } = ports;
  const request = taken.request as Reprocess;
  const settings = settingsOf(request);
  const goesOn = (done: number, total: number): void => {
    signal.throwIfAborted();
    onProgress(done, total);
  };
  const progress = () => ({ at: goesOn, note: onStep, done: () => undefined });
  const opened = await ports.open({ now: Date.now(), needed: request.from, progress, limits: LIMITS });
  try {
    const difference = await differenceOf(opened.ports, settings, {
      onStep: (step) => {
        signal.throwIfAborted();
        onStep(STEPS[step]);
      },
    });
    if (request.writes === null) {
      const found = { ...summaryOf(difference), digest: digestOf(difference) };
      const verdict = `${difference.changes.length} decisions would be written; nothing was`;
      return await expectOurs(reportMove(pool, taken, { status: "completed", verdict, difference: found }));
    }
    const begun = taken.begun ?? (await begin(ports, taken, difference, request));
    onStep("writes decisions");
    const left = new Set(begun);
    const changes = difference.changes.filter(({ decision_id }) => left.has(decision_id));
    const applying = { settings, actor: taken.actor, id: taken.operation_id, onProgress: goesOn };
    const written = await applyDifference(opened, { ...difference, changes }, applying);
    const verdict = verdictOf(written, begun.length - changes.length);
    await expectOurs(reportMove(pool, taken, { status: "completed", verdict }));
  } catch (error) {
    throw error instanceof TooMuch ? new CommandRefused(error.message) : error;
  } finally {
    await opened.close();
  }
};

/**
 * Begins to write exactly the compared differences; a later run continues with the rest of them,
 * and nothing else.
 */
const begin = async (
  { pool }: ReprocessingPorts,
  taken: TakenMove,
  difference: Difference,
  { writes, allow_closed_months }: Reprocess,
): Promise<readonly string[]> => {
  if (digestOf(difference) !== writes!.digest)
    throw new CommandRefused(
      `nothing was written: the window differs otherwise since ${writes!.of} compared it; compare it again`,
    );
  refuseClosedMonths(difference, allow_closed_months);
  const begun = difference.changes.map(({ decision_id }) => decision_id);
  await expectOurs(reportMove(pool, taken, { begun }));
  return begun;
};

const verdictOf = ({ decisions, applied, overtaken, waiting }: WriteResult, before: number): string =>
  [
    `${decisions} decisions written: ${applied} applied, ${overtaken} overtaken, ${waiting} not applied yet`,
    ...(before > 0 ? [`${before} were written before by a keeper that did not end it`] : []),
  ].join("; ");
