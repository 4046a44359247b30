// Records which revisions of the stages decide from here on, before the first batch of a partition
// is processed.
import type { ProcessBatch } from "../../../stream/messages.ts";
import type { Retry } from "../../../stream/ports.ts";

export interface RevisionReader {
  readonly process: ProcessBatch;
  /** Call it on every join: another worker may have had the partition meanwhile. */
  readonly onJoin: () => void;
}

/** Costs one set look-up a batch, and one query a partition and membership. */
export const revised = (
  process: ProcessBatch,
  record: (topic: string, partition: number, offset: number) => Promise<void>,
  retry: Retry,
): RevisionReader => {
  const recorded = new Set<number>();
  return {
    onJoin: () => recorded.clear(),
    process: async (batch, control) => {
      const { topic, partition, messages } = batch;
      if (!recorded.has(partition)) {
        // A crash after this costs nothing: the next owner finds the row, or writes its own at the
        // offset where it starts.
        await retry("record", () => record(topic, partition, messages[0]!.offset), control.heartbeat);
        if (!control.isCurrent()) return;
        recorded.add(partition);
      }
      return process(batch, control);
    },
  };
};
