// Reads the dead-letter topics into the index: commits one transaction a batch, then the offsets.
import { hit } from "#failpoint";
import type { Control, FetchedBatch } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { failureOf } from "./failure.ts";
import type { Failure } from "./letter.ts";

/** A transaction of 500 failures takes less than a second. */
const FAILURES_AT_ONCE = 500;

/**
 * Favours latency over batch size: dead letters are few, and people want their number at once.
 * Records of several megabytes are still fetched one at a time.
 */
export const indexReading = {
  fetch: { minBytes: 1, maxWaitTimeInMs: 500, maxBytesPerPartition: 1024 * 1024, maxBytes: 4 * 1024 * 1024 },
  sessionTimeoutMs: 10_000,
  partitionsAtOnce: 1,
};

/**
 * Returns the consumer's batch handler. It commits the transaction before the offset; a crash in
 * between costs a second reading, which finds every failure already indexed. No record is skipped:
 * one without a source header becomes a letter too.
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
