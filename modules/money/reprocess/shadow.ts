// Folds events through a chain of stages as its worker would, and returns what would have been
// produced, without producing it.

import type { Chain } from "../../../stream/chain.ts";
import type { AnyTopic, Position, Read, Recorded } from "../../../stream/flow.ts";
import type { StageInput } from "../../../stream/fold.ts";
import type { Memories } from "../../../stream/memory/memory.ts";
import { loadAndFold } from "../../../stream/runner.ts";
import type { Wire } from "../../../stream/wire.ts";

export interface ShadowPorts {
  /** Opened for every topic that the chain reads or writes. */
  readonly wire: Wire;
  /** Must not be shared with a worker: memories of this process, or an overlay. */
  readonly memories: Memories;
  readonly read: Read;
}

/** Outputs of a stage, in order. Refused and dropped events leave none. */
export interface ShadowOutput {
  readonly topic: AnyTopic;
  readonly event: Recorded<any>;
}

/** Processes events of one partition in the order of the log. Throws ProcessorThrew. */
export const shadow = (chain: Chain, { wire, memories, read }: ShadowPorts) => {
  const topics = new Map(chain.writes.map((topic) => [topic.name, topic]));
  return async (
    events: readonly Recorded<any>[],
    { topic, partition }: Pick<Position, "topic" | "partition">,
  ): Promise<readonly ShadowOutput[]> => {
    const produced: ShadowOutput[] = [];
    let given: readonly StageInput[] = events.map((event) => ({
      event,
      source: { offset: event.position.offset, key: null, value: null, headers: {}, appendedAt: event.receivedAt },
    }));
    for (const hosted of chain.hosted) {
      if (given.length === 0) break;
      const { memory } = hosted.stage;
      const { folded } = await loadAndFold(hosted, given, { topic, partition }, { memories, read, wire });
      if (memory !== undefined && folded.remembers !== null)
        await memories[memory.driver].remember([{ ...folded.remembers, topic, partition, mark: 0 }]);
      for (const { topic: to, value } of folded.outputs) {
        const written = topics.get(to)!;
        produced.push({ topic: written, event: wire.decode(written, value, { topic, partition, offset: -1 }) });
      }
      given = folded.next;
    }
    return produced;
  };
};
