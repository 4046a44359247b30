// Writes a difference: the start in the audit, the decisions, the end in the audit.
import { createHash } from "node:crypto";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import { commitOf, versionOf } from "../../../../infra/runtime/version.ts";
import { beginOperation, type OperationPlan } from "../../../base/operations/operations.ts";
import { closedMonthsOf, type Difference } from "../difference.ts";
import type { ReprocessSettings } from "../ports.ts";
import { type WriteResult, writeChanges } from "../write.ts";
import type { OpenReprocess } from "./open.ts";
import { shownMoney } from "./summary.ts";

export const windowText = ({ from, to }: Pick<ReprocessSettings, "from" | "to">): string =>
  `${new Date(from).toISOString()}/${new Date(to).toISOString()}`;

/**
 * Its identity in the audit. `actor` is the person who started it; decisions name their own actor.
 */
export const auditOf = (settings: ReprocessSettings, actor: string): OperationPlan => ({
  kind: "reprocess",
  actor,
  target: `${settings.stage} ${windowText(settings)}`,
  reason: settings.reason,
});

/** The request, and the code version that carries it out. */
export const saidOf = ({ from, to, stage, clientId, overridesDecisions, reason }: ReprocessSettings) => ({
  from: new Date(from).toISOString(),
  to: new Date(to).toISOString(),
  stage,
  client_id: clientId,
  overrides_decisions: overridesDecisions,
  reason,
  version: versionOf(),
  commit: commitOf(),
});

/** A digest that is equal for equal decisions, in any order. */
export const digestOf = ({ changes }: Difference): string => {
  const ids = changes.map(({ decision_id }) => decision_id).sort();
  return createHash("sha256").update(ids.join("\n")).digest("base64url");
};

interface ApplyInput {
  readonly settings: ReprocessSettings;
  readonly actor: string;
  /** The id of the operation. */
  readonly id: string;
  readonly onProgress: (done: number, total: number) => void;
}

/** Runs before anything is written. Throws CommandRefused if money of closed months would move. */
export const refuseClosedMonths = (difference: Difference, isAllowed: boolean): void => {
  const closed = closedMonthsOf(difference);
  if (closed.length > 0 && !isAllowed)
    throw new CommandRefused(
      `nothing was written: money of closed months would move (${closed.join(", ")}). Allow it, to book it there as ` +
        "further entries (--allow-closed-months, or allow_closed_months), or choose a later beginning",
    );
};

/**
 * The order of durable effects: 1. the audit records the start, 2. decisions (write.ts), 3. the
 * audit records the end. A run that died is simply run again. The caller records the end of a run
 * that was not completed.
 */
export const applyDifference = async (
  { ports, produce }: Pick<OpenReprocess, "ports" | "produce">,
  difference: Difference,
  { settings, actor, id, onProgress }: ApplyInput,
): Promise<WriteResult> => {
  const money = shownMoney(difference.money);
  const operation = await beginOperation(
    { wire: ports.wire, produce },
    auditOf(settings, actor),
    { ...saidOf(settings), decisions: difference.changes.length, money, reasons: difference.byReason },
    id,
  );
  const written = await writeChanges({ produce, memory: ports.memory }, difference.changes, onProgress);
  await operation.end("succeeded", written);
  return written;
};
