// How the product hosts the pipeline: the groups that faults kill and move, and the parts of a
// rebuild with the tables that it starts empty.
import { type Group, groupsOf } from "../../modules/log/groups/hosting.ts";
import { workerGroups } from "../../modules/running/installation/product.ts";
import { filledWith } from "../../modules/running/state-hash/sink-tables.ts";
import { writesRows } from "../../stream/flow.ts";
import { pipeline } from "../../topology.ts";

type GroupOf<Kind extends Group["is"]> = Extract<Group, { readonly is: Kind }> & { readonly arg: string };
/** A group, its topic, and the argument of the worker that hosts it. */
export interface ReadGroup {
  readonly name: string;
  readonly topic: string;
  readonly arg: string;
}

const groups = workerGroups.map((arg) => ({ ...groupsOf(pipeline, [arg])[0]!, arg }));
/** In the order of the pipeline. */
export const stageGroups = groups.filter((group): group is GroupOf<"chain"> => group.is === "chain");
/** Groups that write rows. */
export const sinkGroups = groups.filter((group): group is GroupOf<"sinks"> => group.is === "sinks");
const readGroupOf = ({ name, reads, arg }: (typeof groups)[number]): ReadGroup => ({ name, topic: reads.name, arg });
/**
 * The groups that follow the log at once. A copy commits only closed files, up to a minute later,
 * and law C11 covers it.
 */
export const readGroups: readonly ReadGroup[] = [...stageGroups, ...sinkGroups].map(readGroupOf);

/** A part of the pipeline: its input, the groups that read it, and its results. */
export interface Part {
  readonly name: string;
  readonly input: string;
  /** Records of its stages about ids that were taken, which a rebuild reads beside the input. */
  readonly beside: readonly string[];
  readonly groups: readonly ReadGroup[];
}

/**
 * Each group of stages with the sinks of its output, and with the sinks of its input if no stage
 * writes that. A part reads a copy of its own input. Claims never come from raw events a second
 * time: the order of `claims` decides which of two events of one order came first, and another
 * reading of raw events may not repeat it.
 */
export const parts: readonly Part[] = stageGroups.map((group) => {
  const { chain, reads } = group;
  const isWritten = stageGroups.some((other) => other.chain.writes.includes(reads));
  const topics = [...chain.writes, ...(isWritten ? [] : [reads])];
  const sinks = sinkGroups.filter((sink) => topics.includes(sink.reads));
  const beside = chain.hosted.flatMap(({ stage }) => stage.taken?.to.name ?? []);
  return { name: chain.name, input: reads.name, beside, groups: [group, ...sinks].map(readGroupOf) };
});

/** The Postgres tables that sinks write: their rows, and the marks of touched rows. */
export const sinkTables: ReadonlySet<string> = new Set(
  pipeline.nodes
    .flatMap((node) => (node.is === "sink" && writesRows(node) ? [node.into, node.into.marks?.into] : []))
    .flatMap((table) => (table?.store === "postgres" ? filledWith(table) : [])),
);
