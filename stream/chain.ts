// A chain: the stages that one worker hosts in a row. The topic between two of them is skipped, and
// its events are passed on in memory.
import type { AnyStage, AnyTopic, Node, Topology } from "./flow.ts";
import type { HostedStage } from "./fold.ts";

export interface Chain {
  /** The name of the first stage, which also names the consumer group. */
  readonly name: string;
  readonly reads: AnyTopic;
  readonly writes: readonly AnyTopic[];
  readonly hosted: readonly HostedStage[];
}

const writes = (node: Node, topic: AnyTopic): boolean =>
  node.is === "stage" ? Object.values(node.to).includes(topic) : node.is === "edge" && node.to === topic;
const reads = (node: Node, topic: AnyTopic): boolean => node.is !== "edge" && node.from === topic;

/** Lists the reasons why the events of one stage cannot be passed to the next stage in memory. */
const problemsBetween = (nodes: readonly Node[], stage: AnyStage, next: AnyStage): readonly string[] => {
  const skipped = next.from;
  if (!Object.values(stage.to).includes(skipped))
    return [`${next.name} reads ${skipped.name}, which ${stage.name} does not write`];
  const problems: string[] = [];
  if (skipped.keyedBy !== stage.from.keyedBy)
    problems.push(
      `${next.name} is keyed by ${skipped.keyedBy} and ${stage.name} by ${stage.from.keyedBy}: their partitions differ`,
    );
  for (const node of nodes) {
    if (node.name !== next.name && reads(node, skipped))
      problems.push(`${node.name} reads ${skipped.name}, which would be skipped`);
    if (node.name !== stage.name && writes(node, skipped))
      problems.push(`${node.name} writes ${skipped.name}, which would be skipped`);
  }
  return problems;
};

/**
 * Builds the chain of the named stages. Throws one Error that lists every problem: a name that is
 * no stage or appears twice, neighbouring stages with different keys, a memory with another key
 * than its topic, or a skipped topic that another node reads or writes.
 */
export const chain = ({ nodes }: Topology, names: readonly string[]): Chain => {
  const problems: string[] = [];
  const stages = names.flatMap((name) => {
    const found = nodes.find((node) => node.name === name);
    if (found?.is === "stage") return found;
    problems.push(
      found === undefined
        ? `${name} is not in the topology`
        : `${name} is ${found.is === "edge" ? "an edge" : "a sink"}, not a stage`,
    );
    return [];
  });
  for (const name of new Set(names.filter((name, n) => names.indexOf(name) !== n)))
    problems.push(`${name} stands there twice`);
  for (const { name, memory, from } of stages)
    if (memory !== undefined && memory.keyedBy !== from.keyedBy)
      problems.push(
        `the memory of ${name} is keyed by ${memory.keyedBy} and its topic ${from.name} by ${from.keyedBy}`,
      );
  if (stages.length === names.length)
    for (const [n, stage] of stages.slice(0, -1).entries())
      problems.push(...problemsBetween(nodes, stage, stages[n + 1]!));
  const first = stages[0];
  if (first === undefined || problems.length > 0)
    throw new Error(
      `${names.join(",") || "(nothing)"} cannot be hosted in one ` +
        `chain:\n${problems.map((problem) => `- ${problem}`).join("\n")}`,
    );

  const hosted = stages.map(
    (stage, n): HostedStage => ({ stage, feeds: stages[n + 1]?.from ?? null, isFirst: n === 0 }),
  );
  const outputs = hosted.flatMap(({ stage, feeds }) => Object.values(stage.to).filter((topic) => topic !== feeds));
  return { name: first.name, reads: first.from, writes: [...new Set(outputs)], hosted };
};
