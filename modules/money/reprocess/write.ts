// Publishes the decisions of a difference, and waits until settle has processed each of them.

import { setTimeout as sleep } from "node:timers/promises";
import { hit } from "#failpoint";
import { decodeOutcome } from "../../../infra/avro/outcome.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import type { Produce } from "../../../stream/messages.ts";
import { topics } from "../../../topics.ts";
import type { Change } from "./changes.ts";

export interface WriteResult {
  /** Decisions in the log; settle processes all of them eventually. */
  readonly decisions: number;
  readonly applied: number;
  /** Decisions without effect, because something else changed the line or event first. */
  readonly overtaken: number;
  /** Decisions that were not processed while the command waited. */
  readonly waiting: number;
}
export interface WritePorts {
  readonly produce: Produce;
  readonly memory: Pick<Memory, "load">;
}

const AT_ONCE = 500;
const ASKED_EVERY_MS = 200;
/** Longest wait without any progress; the decisions stay in the log. */
const PATIENCE_MS = 30_000;

/**
 * The order of durable effects: 1. decisions into `claims`, acknowledged; 2. settle processes each
 * once. A crash in 1 leaves some unwritten: the next run finds those alone, and decisions still in
 * progress keep their ids.
 */
export const writeChanges = async (
  ports: WritePorts,
  changes: readonly Change[],
  tell: (done: number, total: number) => void,
): Promise<WriteResult> => {
  await produceChanges(ports, changes);
  const ids = changes.map(({ decision_id }) => decision_id);
  const { applied, overtaken, waiting } = await answersTo(ports, ids, tell);
  return { decisions: ids.length, applied, overtaken: overtaken.size, waiting };
};

export const produceChanges = async ({ produce }: WritePorts, changes: readonly Change[]): Promise<void> => {
  for (let n = 0; n < changes.length; n += AT_ONCE) {
    const some = changes.slice(n, n + AT_ONCE);
    await produce(some.map(({ message }) => message));
    hit("decisions-produced");
  }
};

/** Waits until settle has processed these decisions, whichever process wrote them. */
export const answersTo = async (
  { memory }: Pick<WritePorts, "memory">,
  ids: readonly string[],
  tell: (done: number, total: number) => void,
): Promise<{ readonly applied: number; readonly overtaken: ReadonlySet<string>; readonly waiting: number }> => {
  const waiting = new Set(ids);
  const overtaken = new Set<string>();
  let heard = performance.now();
  while (waiting.size > 0 && performance.now() - heard < PATIENCE_MS) {
    const eventIds = [...waiting].slice(0, AT_ONCE);
    const { outcomes } = await memory.load({
      stage: "settle",
      keys: [],
      eventIds,
      topic: topics.claims.name,
      partition: 0,
    });
    for (const [id, bytes] of outcomes) {
      waiting.delete(id);
      if (decodeOutcome(bytes).messages.length === 0) overtaken.add(id);
    }
    tell(ids.length - waiting.size, ids.length);
    if (outcomes.size > 0) heard = performance.now();
    else await sleep(ASKED_EVERY_MS);
  }
  return { applied: ids.length - waiting.size - overtaken.size, overtaken, waiting: waiting.size };
};
