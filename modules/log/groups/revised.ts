// Before the first batch of a partition is processed, it is written down which revisions of the
// stages decide from there on.
import type { ProcessBatch } from "../../../stream/messages.ts";
import type { Retry } from "../../../stream/ports.ts";

export interface Revised {
  readonly process: ProcessBatch;
  /**
   * To be called whenever the group is joined: a partition may have been another worker's
   * meanwhile.
   */
  readonly onJoin: () => void;
}

/** Costs one look into a set a batch, and one question a partition and membership. */
export const revised = (
  process: ProcessBatch,
  record: (topic: string, partition: number, offset: number) => Promise<void>,
  retry: Retry,
): Revised => {
  const recorded = new Set<number>();
  return {
    onJoin: () => recorded.clear(),
    process: async (batch, control) => {
      const { topic, partition, messages } = batch;
      if (!recorded.has(partition)) {
        // Dying after it costs nothing: the next owner finds the row, or writes one of its own from
        // where it begins.
        await retry("record", () => record(topic, partition, messages[0]!.offset), control.heartbeat);
        if (!control.isCurrent()) return;
        recorded.add(partition);
      }
      return process(batch, control);
    },
  };
};
