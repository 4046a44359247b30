// Lets the sinks of a replay write its batches through their own runner, and collects the records
// that they withhold and refuse.
import { classify } from "../../../infra/runtime/errors.ts";
import type { AnySink, Topology } from "../../../stream/flow.ts";
import type { InputBatch, Letter, ProcessBatch } from "../../../stream/messages.ts";
import type { SinkPorts, WithholdFilter } from "../../../stream/ports.ts";
import { sinkRunner } from "../../../stream/sink/sink-runner.ts";
import { LaneLost, type Replay } from "./replays.ts";

export interface ReplaySinkPorts extends Pick<SinkPorts, "wire" | "stores" | "retry" | "log"> {
  readonly topology: Topology;
  readonly withholds: () => Promise<WithholdFilter | undefined>;
}

/** The records of a batch that the sinks did not write. */
export interface Unwritten {
  withheld: number;
  readonly refused: Letter[];
}

/**
 * While one runner writes, the other prepares its next write. A partition always has the same
 * runner, which keeps its order.
 */
const RUNNERS = 2;

type RecordPlace = Pick<Letter["position"], "topic" | "partition" | "offset">;

const sinkPortsOf = (
  replay: Replay,
  ports: ReplaySinkPorts,
  unwrittenOf: (record: RecordPlace) => Unwritten,
): SinkPorts => ({
  wire: ports.wire,
  stores: ports.stores,
  retry: ports.retry,
  classify,
  log: ports.log,
  // ClickHouse remembers insert tokens: a token that was used before would drop exactly the rows
  // that have to be restored.
  run: `${replay.replay_id}/${replay.attempts}`,
  withholds: async () => {
    const isWithheld = await ports.withholds();
    if (isWithheld === undefined) return undefined;
    return (event, read) => {
      if (!isWithheld(event, read)) return false;
      unwrittenOf(read).withheld += 1;
      return true;
    };
  },
  // A second dead letter would count as another event. A refusal that is a dead letter already is
  // counted; any other is an error.
  deadLetters: ports.topology.deadLetters,
  deadLetter: (letter: Letter) => {
    unwrittenOf(letter.position).refused.push(letter);
    return { topic: "", key: null, value: null };
  },
  produce: async () => undefined,
  stops: async () => 1,
  countWrite: () => undefined,
});

/**
 * Returns a function that has the sinks write a batch. The offset commit is left to its caller,
 * since the position may move only after the batch before it has been counted.
 */
export const replaySinks = (
  replay: Replay,
  sinks: readonly AnySink[],
  ports: ReplaySinkPorts,
  unwrittenOf: (record: RecordPlace) => Unwritten,
): ((batch: InputBatch) => Promise<void>) => {
  const sinkPorts = sinkPortsOf(replay, ports, unwrittenOf);
  const topics = [...new Set(sinks.map(({ from }) => from))];
  const runners = new Map<string, readonly ProcessBatch[]>(
    topics.map((topic) => {
      const own = sinks.filter(({ from }) => from === topic);
      return [topic.name, Array.from({ length: RUNNERS }, () => sinkRunner(own, sinkPorts))];
    }),
  );
  return async (batch) => {
    if (batch.messages.length === 0) return;
    let isWritten = false;
    await runners.get(batch.topic)![batch.partition % RUNNERS]!(batch, {
      heartbeat: async () => undefined,
      isCurrent: () => true,
      seek: () => undefined,
      readOn: () => undefined,
      rest: () => undefined,
      commit: async () => {
        isWritten = true;
      },
    });
    if (!isWritten) throw new LaneLost(replay.replay_id);
  };
};
