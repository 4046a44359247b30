// How the product hosts the pipeline: the groups whose members die and are moved, and the parts of
// a rebuild with the tables that are empty before it.
import { type Group, groupsOf } from "../../modules/log/groups/hosting.ts";
import { workerGroups } from "../../modules/running/installation/product.ts";
import { filledWith } from "../../modules/running/state-hash/sink-tables.ts";
import { writesRows } from "../../stream/flow.ts";
import { pipeline } from "../../topology.ts";

type GroupOf<Kind extends Group["is"]> = Extract<Group, { readonly is: Kind }> & { readonly arg: string };
/** A group, the topic that it reads, and the argument of the worker that hosts it. */
export interface ReadGroup {
  readonly name: string;
  readonly topic: string;
  readonly arg: string;
}

const groups = workerGroups.map((arg) => ({ ...groupsOf(pipeline, [arg])[0]!, arg }));
/** In the order that data flows. */
export const stageGroups = groups.filter((group): group is GroupOf<"chain"> => group.is === "chain");
/** Those that write rows. */
export const sinkGroups = groups.filter((group): group is GroupOf<"sinks"> => group.is === "sinks");
const readGroupOf = ({ name, reads, arg }: (typeof groups)[number]): ReadGroup => ({ name, topic: reads.name, arg });
/**
 * All that follow the log at once. A copy commits what it has closed in files, up to a minute
 * later; law C11 looks at it.
 */
export const readGroups: readonly ReadGroup[] = [...stageGroups, ...sinkGroups].map(readGroupOf);

/** What one part of the pipeline reads, and the groups that read it and what comes of it. */
export interface Part {
  readonly name: string;
  readonly input: string;
  readonly groups: readonly ReadGroup[];
}

/**
 * Each group of stages with the sinks of what it writes, and of what it reads where no stage writes
 * that. A part reads a copy of its own input: claims never come from raw a second time, for which
 * of two events of one order was first is decided by the order of `claims`, which another reading
 * of raw need not repeat.
 */
export const parts: readonly Part[] = stageGroups.map((group) => {
  const { chain, reads } = group;
  const isWritten = stageGroups.some((other) => other.chain.writes.includes(reads));
  const topics = [...chain.writes, ...(isWritten ? [] : [reads])];
  const sinks = sinkGroups.filter((sink) => topics.includes(sink.reads));
  return { name: chain.name, input: reads.name, groups: [group, ...sinks].map(readGroupOf) };
});

/** The tables of Postgres that sinks write: their rows, and marks of what these touched. */
export const sinkTables: ReadonlySet<string> = new Set(
  pipeline.nodes
    .flatMap((node) => (node.is === "sink" && writesRows(node) ? [node.into, node.into.marks?.into] : []))
    .flatMap((table) => (table?.store === "postgres" ? filledWith(table) : [])),
);
