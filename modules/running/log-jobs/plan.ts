// Plans a job on the log, and checks before it starts that the plan still holds.
import { createHash } from "node:crypto";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { topicSettings } from "../../../topics.ts";
import { invalid, type RefusalError } from "../../base/refusal.ts";
import { planReplay } from "../../log/replays/plan.ts";
import { openReplays } from "../../log/replays/replays.ts";
import { replayableSinks } from "../../log/replays/report.ts";
import { relearnable } from "../../log/rewind/relearn-ports.ts";
import { eventsOf, movesOf, type RewindTo } from "../../log/rewind/rewind-plan.ts";
import {
  type FoundGroup,
  findGroup,
  RewindRefused,
  type RewindSources,
  refuseBehind,
  rewindReads,
} from "../../log/rewind/rewind-ports.ts";
import { previewRewind } from "../../log/rewind/rewind-preview.ts";
import type { Move, MovePlan } from "./move.ts";
import { planReprocess } from "./reprocess-plan.ts";

export type PlanSources = Omit<RewindSources, "audit">;

/**
 * Changes nothing. Throws RefusalError: invalid `unknown_target` for a name that is no stage or
 * sink of this pipeline.
 */
export const planMove = (sources: PlanSources, move: Move, now: UnixMs): Promise<MovePlan> => {
  if (move.move === "rewind") return planRewinding(sources, move);
  if (move.move === "relearn") return planRelearning(sources, move);
  if (move.move === "reprocess") return planReprocess(sources, move);
  return planReplaying(sources, move, now);
};

const unknownTarget = (valid: readonly string[]): RefusalError =>
  invalid("/target", "unknown_target", `give one of ${valid.join(", ")}`);

const digestOf = (parts: unknown): string => createHash("sha256").update(JSON.stringify(parts)).digest("base64url");

const hostOf = (sources: PlanSources, name: string, isMeant: (is: string) => boolean): Promise<FoundGroup> => {
  const known = sources.topology.nodes.filter(({ is }) => isMeant(is)).map((node) => node.name);
  if (!known.includes(name)) throw unknownTarget(known);
  return findGroup(sources, name);
};

/** The plan of a refused job, which has nothing to carry out. */
const refused = (subject: string, problem: string): MovePlan => ({
  ...{ subject, nodes: [], records: 0, seconds: null, partitions: [], consequences: [], problem },
  digest: digestOf([subject, problem]),
});

const orRefused = async (name: string, plan: () => Promise<MovePlan>): Promise<MovePlan> => {
  try {
    return await plan();
  } catch (error) {
    if (error instanceof RewindRefused || error instanceof CommandRefused) return refused(name, error.message);
    throw error;
  }
};

/** Parses a target as a rewind does. Throws for a text that no plan accepts. */
export const rewindToOf = (text: string): RewindTo => {
  if (text === "earliest") return { kind: "earliest" };
  const [, offset] = /^offset:(\d{1,15})$/.exec(text) ?? [];
  if (offset !== undefined) return { kind: "offset", offset: Number(offset) };
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw new Error(`${text} is neither earliest, nor offset:N, nor a time`);
  return { kind: "time", at };
};

/** Describes the job that already holds the group. */
const heldBy = async (sources: PlanSources, group: string): Promise<string | null> => {
  const hold = await rewindReads(sources).holds.of(group);
  return hold === null
    ? null
    : `${group} is held by ${hold.operation} (${hold.kind}); wait for it, or give it up: tributary groups ` +
        `release ${group}`;
};

const planRewinding = (sources: PlanSources, move: Move & { readonly move: "rewind" }): Promise<MovePlan> =>
  orRefused(move.target, async () => {
    const hosting = await hostOf(sources, move.target, (is) => is !== "edge");
    refuseBehind(move.target, hosting);
    const { group, topic, nodes } = hosting;
    const request = { ...hosting, to: rewindToOf(move.from), text: move.from, isPartial: move.partial };
    const seen = await previewRewind(rewindReads(sources), sources.topology, request);
    const moved = movesOf(seen.plan).map(({ partition, target, committed }) => ({
      ...{ topic, partition, from: target, to: committed },
    }));
    return {
      subject: group,
      nodes,
      records: eventsOf(seen.plan),
      seconds: null,
      partitions: moved,
      consequences: [...seen.rewrites, "offsets of other groups, and what people decided, stay as they are"],
      problem: (await heldBy(sources, group)) ?? seen.problem,
      // The ends are left out, because they move with every record that is read meanwhile.
      digest: digestOf([group, topic, nodes, moved.map(({ partition, from }) => [partition, from])]),
    };
  });

const planRelearning = (sources: PlanSources, move: Move & { readonly move: "relearn" }): Promise<MovePlan> =>
  orRefused(move.target, async () => {
    const { group, topic, nodes } = await hostOf(sources, move.target, (is) => is === "stage");
    const stage = relearnable(sources.topology, move.target);
    const known = (await sources.admin.lag(group, [topic])).flatMap(({ partition, low, committed }) =>
      committed === null || committed <= low ? [] : [{ topic, partition, from: low, to: committed }],
    );
    return {
      subject: group,
      nodes: [stage.name],
      records: known.reduce((sum, { from, to }) => sum + to - from, 0),
      seconds: null,
      partitions: known,
      consequences: [
        `${stage.name} forgets ${stage.memory!.name} in Redis and reads ${topic} once more; nothing is written again`,
        `${nodes.join(", ")} stand still until the memory is complete`,
      ],
      problem: await heldBy(sources, group),
      digest: digestOf([group, topic, nodes, stage.name]),
    };
  });

const planReplaying = async (
  sources: PlanSources,
  { sinks: names, from, to }: Move & { readonly move: "replay" },
  now: UnixMs,
): Promise<MovePlan> => {
  const all = replayableSinks(sources.topology);
  const unknown = names.find((name) => !all.some((sink) => sink.name === name));
  if (unknown !== undefined) throw unknownTarget(all.map(({ name }) => name));
  const sinks = all.filter(({ name }) => names.length === 0 || names.includes(name));
  const plan = await planReplay({ ...sources, topics: topicSettings }, { from, to }, sinks, now);
  const open = await openReplays(sources.pool);
  const partitions = plan.segments.map(({ topic, partition, start, end }) => ({
    ...{ topic, partition, from: start, to: end },
  }));
  return {
    subject: plan.sinks.join(","),
    nodes: plan.sinks,
    records: plan.events,
    seconds: plan.estimated_seconds,
    partitions,
    consequences: [
      "rows that are there stay as they are, and rows that were lost come back; nothing is computed again",
      ...plan.missing,
      ...open.map(({ replay_id }) => `${replay_id} is open: a window that it covers joins it, another waits for it`),
    ],
    problem: plan.events === 0 ? "the log holds no record of that window" : null,
    digest: digestOf([
      plan.sinks,
      partitions.map(({ topic, partition, from: start }) => [topic, partition, start]),
      open.map(({ replay_id }) => replay_id),
    ]),
  };
};
