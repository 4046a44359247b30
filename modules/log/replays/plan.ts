// Estimates a replay before it is requested: records by topic, duration, and the part of the window
// that retention has removed.
import type { Pool } from "pg";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import type { AnySink } from "../../../stream/flow.ts";
import { rangesOf } from "./replay-lane.ts";
import { listReplays, type Segment, type WantedReplay } from "./replays.ts";

const DAY_MS = 86_400_000;
/**
 * Measured with one keeper on two cores without live traffic (bench/replay.ts). The rate of the
 * last completed replay takes precedence.
 */
const EVENTS_A_SECOND = 20_000;

export interface PlanPorts {
  readonly pool: Pool;
  readonly admin: Admin;
  /** How long each topic keeps its records; negative: forever. */
  readonly topics: readonly { readonly name: string; readonly retentionMs: number }[];
}

export interface ReplayPlan {
  readonly from: string;
  readonly to: string | null;
  readonly sinks: readonly string[];
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: number;
    readonly events: number;
    readonly sinks: readonly string[];
  }[];
  readonly events: number;
  readonly estimated_seconds: number;
  /** Parts of the window that the log no longer holds. */
  readonly missing: readonly string[];
  readonly segments: readonly Segment[];
}

export const planReplay = async (
  { pool, admin, topics }: PlanPorts,
  window: Pick<WantedReplay, "from" | "to">,
  sinks: readonly AnySink[],
  now: number,
): Promise<ReplayPlan> => {
  const names = [...new Set(sinks.map(({ from }) => from.name))];
  const segments = await rangesOf(admin, names, { from_at: window.from, to_at: window.to });
  const counted = names.map((topic) => {
    const own = segments.filter((segment) => segment.topic === topic);
    return {
      topic,
      partitions: own.length,
      events: own.reduce((sum, { start, end }) => sum + end - start, 0),
      sinks: sinks.filter(({ from }) => from.name === topic).map(({ name }) => name),
    };
  });
  const events = counted.reduce((sum, one) => sum + one.events, 0);
  return {
    from: new Date(window.from).toISOString(),
    to: window.to === null ? null : new Date(window.to).toISOString(),
    sinks: sinks.map(({ name }) => name),
    topics: counted,
    events,
    estimated_seconds: Math.ceil(events / (await rateSeen(pool))),
    missing: names.flatMap((name) => missingOf(topics, name, window.from, now)),
    segments,
  };
};

const missingOf = (topics: PlanPorts["topics"], topic: string, from: number, now: number): readonly string[] => {
  const kept = topics.find(({ name }) => name === topic)?.retentionMs ?? -1;
  if (kept < 0 || from >= now - kept) return [];
  const since = new Date(now - kept).toISOString().slice(0, 16);
  return [
    `${topic} keeps ${Math.round(kept / DAY_MS)} days: what came before ${since}Z is not in it any ` +
      "more; see docs/runbooks/replay-of-a-day.md",
  ];
};

/** Events a second of the newest replay that was large enough to measure. */
const rateSeen = async (pool: Pool): Promise<number> => {
  for (const { state, requeued, started_at, ended_at } of await listReplays(pool, 20))
    if (state === "done" && requeued > 10_000 && started_at !== null && ended_at !== null && ended_at > started_at)
      return requeued / ((ended_at - started_at) / 1_000);
  return EVENTS_A_SECOND;
};
