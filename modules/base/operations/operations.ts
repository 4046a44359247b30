// The audit of operations on the log: one record before an operation begins, and one with the same
// id when it ends (topic `operations`).
import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { UsageError } from "../../../infra/runtime/command-errors.ts";
import type { Operation } from "../../../schemas/generated.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";

export interface OperationPlan {
  readonly kind:
    | "rewind"
    | "replay"
    | "relearn"
    | "reprocess"
    | "restore"
    | "dead_letter_retry"
    | "dead_letter_discard"
    | "set_aside"
    | "decision"
    | "secrets_reseal"
    | "user_create"
    | "user_assign"
    | "user_disable"
    | "user_enable"
    | "user_reset"
    | "secret_rule_out";
  readonly actor: string;
  readonly target: string;
  readonly reason?: string;
}

export interface RunningOperation {
  readonly id: string;
  /** Written once; `detail` holds the result, e.g. offsets, counts or the error. */
  readonly end: (phase: "succeeded" | "failed" | "refused", detail: object) => Promise<void>;
}

const ADDRESS = /^[^\s@\p{C}]{1,64}@[^\s@\p{C}]{1,190}$/u;

/**
 * Names the actor: the given e-mail address, followed by the user of this machine. Anyone may give
 * any address, so the account is always included. Throws UsageError if the text is not an address.
 */
export const actorOf = (given?: string): string => {
  const account = `${userInfo().username}@cli`;
  if (given === undefined) return account;
  if (!ADDRESS.test(given)) throw new UsageError("--actor: must be an e-mail address, like ana@example.com");
  return `${given} (${account})`;
};

export interface OperationPorts {
  /** Opened for `topics.operations`. */
  readonly wire: Wire;
  readonly produce: Produce;
}

const write = (
  { wire, produce }: OperationPorts,
  id: string,
  { kind, actor, target, reason }: OperationPlan,
  phase: string,
  said: object,
): Promise<void> => {
  const { operations } = topics;
  const data: Operation = {
    operation_id: id,
    kind,
    phase,
    actor,
    target,
    reason: reason ?? null,
    detail: JSON.stringify(said),
  };
  const now = Date.now();
  const position = { topic: operations.name, partition: -1, offset: -1 };
  const value = wire.encode(operations, { id, key: actor, at: now, receivedAt: now, position, data }, null);
  return produce([{ topic: operations.name, key: actor, value }]);
};

/** Resumes an operation of another process that ended without recording the result. */
export const resumeOperation = (ports: OperationPorts, id: string, plan: OperationPlan): RunningOperation => ({
  id,
  end: (phase, said) => write(ports, id, plan, phase, said),
});

/**
 * Resolves when the start is acknowledged, so that nothing is changed without a record. An
 * operation that was requested earlier has its `id` already.
 */
export const beginOperation = async (
  ports: OperationPorts,
  plan: OperationPlan,
  detail: object,
  id = `op_${randomUUID()}`,
): Promise<RunningOperation> => {
  await write(ports, id, plan, "started", detail);
  return resumeOperation(ports, id, plan);
};
