// apps/operations.ts - the audit of what is done to the log: one record before it begins, one with the same id when it ends (topic `operations`).
import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { type Operation, topics } from "../schemas/generated.ts";
import type { Produce } from "../stream/ports.ts";
import type { Wire } from "../stream/wire.ts";

export interface OperationPlan {
  readonly kind: "rewind" | "replay" | "relearn" | "reprocess" | "restore" | "dead_letter_retry" | "dead_letter_discard" | "restart";
  readonly actor: string;
  readonly target: string;
  readonly reason?: string;
}

export interface RunningOperation {
  readonly id: string;
  /** Written once; `detail` holds what came of it: offsets, counts, what went wrong. */
  readonly end: (phase: "succeeded" | "failed" | "refused", detail: object) => Promise<void>;
}

/** Who types: the e-mail address that is given, else the user of this machine. */
export const actorOf = (given?: string): string => given ?? `${userInfo().username}@cli`;

/** Resolves once the beginning is acknowledged: nothing is touched that nobody could read about. The wire must have been opened for `topics.operations`. */
export const beginOperation = async (
  { wire, produce }: { readonly wire: Wire; readonly produce: Produce },
  { kind, actor, target, reason }: OperationPlan,
  detail: object,
): Promise<RunningOperation> => {
  const id = `op_${randomUUID()}`;
  const { operations } = topics;
  const write = (phase: string, said: object): Promise<void> => {
    const data: Operation = { operation_id: id, kind, phase, actor, target, reason: reason ?? null, detail: JSON.stringify(said) };
    const now = Date.now();
    const position = { topic: operations.name, partition: -1, offset: -1 };
    const value = wire.encode(operations, { id, key: actor, at: now, receivedAt: now, position, data }, null);
    return produce([{ topic: operations.name, key: actor, value }]);
  };
  await write("started", detail);
  return { id, end: (phase, said) => write(phase, said) };
};
