// A pipeline as a value. Building one checks what types cannot express, and `draw` draws it.
import type {
  AnyCopy,
  AnyEdge,
  AnyFeed,
  AnyReader,
  AnySink,
  AnyStage,
  AnyTopic,
  DeadLetterRoute,
  Declared,
  Node,
  Topology,
} from "./flow.ts";

/** The outputs of a stage, and where it records ids that were taken. */
export const topicsWrittenBy = ({ to, taken }: Pick<AnyStage, "to" | "taken">): readonly AnyTopic[] =>
  taken === undefined ? Object.values(to) : [...Object.values(to), taken.to];

/** The topics that a node writes to. */
const writtenBy = (node: Node): readonly AnyTopic[] => {
  if (node.is === "stage") return topicsWrittenBy(node);
  return node.is === "edge" ? [node.to] : [];
};

/** True if `goal` can be reached from `start` through the topics between them. */
const reaches = (nodes: readonly Node[], start: Node, goal: Node, seen = new Set<Node>()): boolean =>
  writtenBy(start).some((topic) =>
    nodes.some((next) => {
      if (next.is === "edge" || next.from !== topic || seen.has(next)) return false;
      seen.add(next);
      return next === goal || reaches(nodes, next, goal, seen);
    }),
  );

/** The stages and sinks, in the direction of the data. */
export const readersOf = ({ nodes }: Topology): readonly AnyReader[] =>
  nodes.flatMap((node) => (node.is === "edge" ? [] : [node]));

/** Finds the sink that fills this table or stores these files. Throws if there is none. */
export const sinkInto = (topology: Topology, into: AnySink["into"] | AnyCopy["into"]): AnySink | AnyCopy => {
  const found = readersOf(topology).find((node) => node.is === "sink" && node.into === into);
  if (found?.is !== "sink") throw new Error(`no sink of ${topology.name} fills ${into.name}`);
  return found;
};

/** The path of an event into a sink: the stages before the sink, and the sink itself. */
export const wayTo = (topology: Topology, sink: AnyReader): readonly AnyReader[] => [
  ...readersOf(topology).filter((node) => node.is === "stage" && reaches(topology.nodes, node, sink)),
  sink,
];

/**
 * Lists the problems of a graph that the compiler cannot see. An empty list means that the graph is
 * sound.
 */
const problemsOf = (nodes: readonly Node[]): readonly string[] => {
  const problems: string[] = [];
  const written = new Set(nodes.flatMap(writtenBy));
  const names = nodes.map((node) => node.name);
  for (const name of new Set(names.filter((name, n) => names.indexOf(name) !== n)))
    problems.push(`${name}: two nodes bear this name; names are part of ids and groups`);
  for (const node of nodes) {
    if (node.is === "edge") continue;
    if (!written.has(node.from))
      problems.push(`${node.name}: no edge or stage writes ${node.from.name}, which it reads`);
    if (node.is !== "stage") continue;
    if (reaches(nodes, node, node)) problems.push(`${node.name}: its output comes back to it`);
    if (node.memory !== undefined && node.memory.keyedBy !== node.from.keyedBy)
      problems.push(
        `${node.name}: its memory ${node.memory.name} is keyed by ${node.memory.keyedBy}, but ` +
          `${node.from.name} by ${node.from.keyedBy}; memory never crosses partitions`,
      );
    if (node.taken !== undefined && node.taken.to.keyedBy !== node.from.keyedBy)
      problems.push(
        `${node.name}: ${node.taken.to.name} is keyed by ${node.taken.to.keyedBy}, but ${node.from.name} by ` +
          `${node.from.keyedBy}; an id is taken by another key of the same kind`,
      );
    for (const output of topicsWrittenBy(node))
      if (output.keyedBy === node.from.keyedBy && output.partitions !== node.from.partitions)
        problems.push(
          `${node.name}: ${node.from.name} has ${node.from.partitions} partitions and ${output.name} ` +
            `${output.partitions}, but both are keyed by ${output.keyedBy}; make them equal`,
        );
  }
  return problems;
};

/**
 * Builds a topology with its nodes in the direction of the data. Throws one Error that lists every
 * problem: a repeated name, a topic that no node writes, a cycle, a memory with another key than
 * its topic, or topics that share a key but not a number of partitions.
 */
export const topology = <const Nodes extends readonly Node[]>(
  name: string,
  deadLetters: DeadLetterRoute,
  ...nodes: Nodes
): Declared<Nodes> => {
  const problems = problemsOf(nodes);
  if (problems.length > 0)
    throw new Error(`the topology ${name} is not sound:\n${problems.map((problem) => `- ${problem}`).join("\n")}`);
  return { name, nodes, declared: nodes, deadLetters };
};

/** The edge for requests from outside that has this name in the topology. */
export type EdgeIn<Nodes extends readonly Node[], Name extends string = string> = Extract<
  Nodes[number],
  { readonly is: "edge"; readonly name: Name; readonly accepts: unknown }
>;
/** The feed of Tributary's own records that has this name in the topology. */
export type FeedIn<Nodes extends readonly Node[], Name extends string = string> = Extract<
  Nodes[number],
  { readonly is: "edge"; readonly name: Name; readonly record: unknown }
>;

/** A stage of the topology. */
export type StageIn<Nodes extends readonly Node[]> = Extract<Nodes[number], { readonly is: "stage" }>;

/** The stages, in the direction of the data. */
export const stagesOf = ({ nodes }: Topology): readonly AnyStage[] =>
  nodes.flatMap((node) => (node.is === "stage" ? [node] : []));
/** The edges for requests from outside. */
export const edgesOf = ({ nodes }: Topology): readonly AnyEdge[] =>
  nodes.flatMap((node) => (node.is === "edge" && "accepts" in node ? [node] : []));
/** The feeds that Tributary's own processes write. */
export const feedsOf = ({ nodes }: Topology): readonly AnyFeed[] =>
  nodes.flatMap((node) => (node.is === "edge" && "record" in node ? [node] : []));

const idOf = (name: string): string => name.replace(/[^a-z0-9]/gi, "_");

/**
 * Draws the topology as a Mermaid flow chart: edges are flags, topics are cylinders, stages are
 * boxes with their memory, and sinks are stores.
 */
export const draw = ({ nodes }: Topology): string => {
  const topics = new Set(nodes.flatMap((node) => [...writtenBy(node), ...(node.is === "edge" ? [] : [node.from])]));
  const lines = [...topics].map((topic) => `  ${idOf(topic.name)}[("${topic.name}<br/>by ${topic.keyedBy}")]`);
  for (const node of nodes) {
    const id = `${node.is}_${idOf(node.name)}`;
    if (node.is === "edge") lines.push(`  ${id}>"${node.on}"] --> ${idOf(node.to.name)}`);
    else if (node.is === "sink")
      lines.push(`  ${idOf(node.from.name)} --> ${id}[/"${node.name}<br/>${node.into.store} ${node.into.name}"/]`);
    else {
      const memory = node.memory ? `<br/>remembers ${node.memory.name} (${node.memory.driver})` : "";
      const facts = node.facts ? `<br/>looks up ${node.facts.name}` : "";
      lines.push(`  ${idOf(node.from.name)} --> ${id}["${node.name}${facts}${memory}"]`);
      const outputs = Object.entries(node.to);
      if (node.taken !== undefined) outputs.push(["taken", node.taken.to]);
      for (const [output, topic] of outputs) lines.push(`  ${id} -- ${output} --> ${idOf(topic.name)}`);
    }
  }
  return `flowchart LR\n${lines.join("\n")}\n`;
};
