// Reads a topic, or ranges of it, beside a membership that must not fall silent.
import type { OffsetRanges, WholeReader } from "../../stream/ports.ts";
import { openRounds } from "../runtime/timing/rounds.ts";
import type { LogReplay, ReplaySettings } from "./replay.ts";

const HEARTBEAT_MS = 1_000;

const within = (topic: string, ranges: OffsetRanges): Pick<ReplaySettings, "from" | "until" | "only"> => {
  const offsets = (which: "from" | "until") =>
    new Map([[topic, new Map([...ranges].map(([partition, range]) => [partition, range[which]]))]]);
  return { from: offsets("from"), until: offsets("until"), only: (_, partition) => ranges.has(partition) };
};

/** A replay joins a group of its own first, which may take as long as a session lasts. */
export const wholeReader =
  ({ replay }: LogReplay): WholeReader =>
  async (topic, onBatch, heartbeat, ranges) => {
    const lost = new AbortController();
    const rounds = openRounds({ everyMs: HEARTBEAT_MS, round: heartbeat, onFailure: (error) => lost.abort(error) });
    try {
      await replay({ topics: [topic], onBatch, signal: lost.signal, ...(ranges && within(topic, ranges)) });
    } finally {
      rounds.stop();
    }
  };
