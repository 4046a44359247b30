// Reads the dead-letter topics into the index: one transaction a batch, then the offsets.
import { hit } from "#failpoint";
import type { Control, FetchedBatch } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { failureOf } from "./failure.ts";
import type { Failure } from "./letter.ts";

/** A transaction of so many is over in a second. */
const FAILURES_AT_ONCE = 500;

/**
 * Small and prompt: dead letters are few, and their number is wanted now. A garbage
 * of megabytes still comes one at a time.
 */
export const indexReading = {
  fetch: { minBytes: 1, maxWaitTimeInMs: 500, maxBytesPerPartition: 1024 * 1024, maxBytes: 4 * 1024 * 1024 },
  sessionTimeoutMs: 10_000,
  partitionsAtOnce: 1,
};

/**
 * The function that a consumer calls. The transaction first, then the offset: dying in between
 * costs a second reading, in which every failure is known.
 * No record is passed over: one that says nothing about where it came from is a letter as well.
 */
export const indexing =
  (wire: Wire, index: (failures: readonly Failure[]) => Promise<unknown>) =>
  async (
    batch: Pick<FetchedBatch, "topic" | "partition" | "messages">,
    control: Pick<Control, "commit" | "heartbeat" | "isCurrent">,
  ): Promise<void> => {
    const { topic, partition, messages } = batch;
    for (let start = 0; start < messages.length; start += FAILURES_AT_ONCE) {
      const some = messages.slice(start, start + FAILURES_AT_ONCE);
      const failures: Failure[] = [];
      for (const message of some)
        failures.push(await failureOf(wire, message, { topic, partition, offset: message.offset }, message.appendedAt));
      await control.heartbeat();
      if (!control.isCurrent()) return;
      await index(failures);
      hit("dlq-indexed");
      await control.commit(some.at(-1)!.offset + 1);
    }
  };
