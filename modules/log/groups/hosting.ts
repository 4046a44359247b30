// Parses which consumer groups a worker hosts: a comma fuses stages (or sinks of one topic), a
// space adds one more group.
import { type Chain, chain } from "../../../stream/chain.ts";
import { type AnyCopy, type AnySink, type AnyTopic, type Topology, writesRows } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";

export type Group =
  | { readonly is: "chain"; readonly name: string; readonly reads: AnyTopic; readonly chain: Chain }
  | { readonly is: "sinks"; readonly name: string; readonly reads: AnyTopic; readonly sinks: readonly AnySink[] }
  | { readonly is: "copy"; readonly name: string; readonly reads: AnyTopic; readonly copy: AnyCopy };

/** A group is named after the first stage or sink that it hosts. Never rename one. */
export const groupNamed = (first: string): string => `tributary.${first}`;

const sinksOf = ({ nodes }: Topology, names: readonly string[]): readonly (AnySink | AnyCopy)[] =>
  names.flatMap((name) => nodes.filter((node) => node.is === "sink").filter((node) => node.name === name));

/** Throws one Error that lists the problems of every group. */
export const groupsOf = (topology: Topology, args: readonly string[]): readonly Group[] => {
  const problems: string[] = [];
  const groups = args.flatMap((arg): readonly Group[] => {
    const names = arg.split(",");
    const sinks = sinksOf(topology, names);
    try {
      if (sinks.length < names.length || sinks.length === 0) {
        const hosted = chain(topology, names);
        return [{ is: "chain", name: groupNamed(hosted.name), reads: hosted.reads, chain: hosted }];
      }
      const reads = sinks[0]!.from;
      const stranger = sinks.find(({ from }) => from !== reads);
      if (stranger !== undefined)
        throw new Error(
          `${stranger.name} reads ${stranger.from.name}, the sinks before it ${reads.name}: put a space between`,
        );
      const name = groupNamed(sinks[0]!.name);
      const copy = sinks.find((one) => !writesRows(one)) as AnyCopy | undefined;
      if (copy === undefined) return [{ is: "sinks", name, reads, sinks: sinks.filter(writesRows) }];
      if (sinks.length > 1)
        throw new Error(`${copy.name} copies records and shares its reading with no other: put a space between`);
      return [{ is: "copy", name, reads, copy }];
    } catch (error) {
      problems.push((error as Error).message);
      return [];
    }
  });
  const names = groups.map(({ name }) => name);
  for (const name of new Set(names.filter((name, n) => names.indexOf(name) !== n)))
    problems.push(`${name} stands there twice`);
  if (args.length === 0) {
    const known = topology.nodes.flatMap(({ is, name }) => (is === "edge" ? [] : name));
    problems.push(
      `usage: worker <group> [<group> ...]; a comma fuses, e.g. worker ${known.slice(0, 2).join(",")}; ` +
        `known: ${known.join(" ")}`,
    );
  }
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return groups;
};

/**
 * The groups of everything that `hosted` leaves out: each stage alone, the sinks of one topic
 * together, each copy alone. A group bears the name of its first sink, so a new sink must come
 * after the other sinks of its topic in the topology: before them it would rename their group,
 * which would then read from the beginning.
 */
export const groupsBeside = (topology: Topology, hosted: readonly string[]): readonly string[] => {
  const names = new Set(hosted.flatMap((arg) => arg.split(",")));
  const left = readersOf(topology).filter(({ name }) => !names.has(name));
  const stages = left.filter(({ is }) => is === "stage");
  const sinks = left.filter((node): node is AnySink => node.is === "sink" && writesRows(node));
  const copies = left.filter((node) => node.is === "sink" && !writesRows(node));
  const together = [...new Set(sinks.map(({ from }) => from))].map((topic) =>
    sinks.flatMap(({ from, name }) => (from === topic ? name : [])).join(","),
  );
  return [...stages.map(({ name }) => name), ...together, ...copies.map(({ name }) => name)];
};
