// Derives who hosts each stage and sink now, and which groups an event passes on its way, from the
// pipeline and from what workers record when they join.
import type { Pool } from "pg";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import type { AnyReader, Topology } from "../../../stream/flow.ts";
import { readersOf, wayTo } from "../../../stream/topology.ts";
import { type Hosting, hostings } from "./group-holds.ts";
import { groupNamed } from "./hosting.ts";

/** A consumer group and the topic that it reads. */
export interface Hop {
  readonly group: string;
  readonly topic: string;
  /**
   * All stages or sinks that the group hosts, in the order of the chain; empty when no worker hosts
   * it.
   */
  readonly nodes: readonly string[];
}
interface Host extends Hop {
  /** False if no worker has ever recorded it; then this is the group with its own name. */
  readonly isRecorded: boolean;
}
export type Hosts = (node: Pick<AnyReader, "name">) => Host;
export type RecordedHosting = Pick<Hosting, "group" | "topic" | "nodes">;

/**
 * Picks, among the groups that workers recorded for a stage or sink, the one with members, else the
 * one joined last, else the group of its own name. `recorded` has the newest first.
 */
export const hostsOf = (
  topology: Topology,
  recorded: readonly RecordedHosting[],
  hasMembers: (group: string) => boolean,
): Hosts => {
  const hostOf = ({ name, from }: AnyReader): Host => {
    const known = recorded.filter(({ nodes }) => nodes.includes(name));
    const found = known.find(({ group }) => hasMembers(group)) ?? known[0];
    return found === undefined
      ? { group: groupNamed(name), topic: from.name, nodes: [name], isRecorded: false }
      : { group: found.group, topic: found.topic, nodes: found.nodes, isRecorded: true };
  };
  const hosts = new Map(readersOf(topology).map((node) => [node.name, hostOf(node)]));
  return ({ name }) => {
    const host = hosts.get(name);
    if (host === undefined) throw new Error(`${name} is no stage and no sink`);
    return host;
  };
};

/** Stages and sinks that no worker has recorded, in the order of the topology. */
export const unhosted = (
  topology: Topology,
  recorded: readonly Pick<RecordedHosting, "nodes">[],
): readonly string[] => {
  const hosted = new Set(recorded.flatMap(({ nodes }) => nodes));
  return readersOf(topology).flatMap(({ name }) => (hosted.has(name) ? [] : name));
};

/**
 * Groups that claim a stage or sink which another group claims too. Only their members can decide.
 */
const disputed = (topology: Topology, recorded: readonly RecordedHosting[]): readonly string[] => [
  ...new Set(
    readersOf(topology).flatMap(({ name }) => {
      const known = recorded.filter(({ nodes }) => nodes.includes(name));
      return known.length > 1 ? known.map(({ group }) => group) : [];
    }),
  ),
];

export interface HostPorts {
  readonly topology: Topology;
  /** The newest first. */
  readonly recorded: () => Promise<readonly RecordedHosting[]>;
  readonly describeGroups: Admin["describeGroups"];
}

/**
 * Reads the recorded hostings, and asks the broker only when two groups claim the same stage or
 * sink.
 */
export const hostsNow = async ({ topology, recorded, describeGroups }: HostPorts): Promise<Hosts> => {
  const known = await recorded();
  const asked = disputed(topology, known);
  const states = asked.length === 0 ? [] : await describeGroups(asked);
  return hostsOf(topology, known, (group) => states.some((state) => state.group === group && state.members.length > 0));
};

/**
 * Keeps the last result while Postgres is down: workers cannot record another hosting then either.
 * Rejects until the first success.
 */
export const recordedHostings = (pool: Pool): HostPorts["recorded"] => {
  let last: readonly RecordedHosting[] | undefined;
  return async () => {
    try {
      last = await hostings(pool);
    } catch (error) {
      if (last === undefined) throw error;
    }
    return last;
  };
};

/**
 * Returns the groups that an event passes into `sink`, in the order of the data flow. A stage that
 * is fused with the one before it has two: the group that hosts it, and the group of its own name,
 * whose topic may still hold records from when it was hosted apart.
 */
export const hopsTo = (topology: Topology, sink: AnyReader, hosts: Hosts): readonly Hop[] => {
  const hops = wayTo(topology, sink).flatMap((node): readonly Hop[] => {
    const host = hosts(node);
    const apart = { group: groupNamed(node.name), topic: node.from.name, nodes: [] };
    return host.topic === apart.topic ? [host] : [host, apart];
  });
  return hops.filter(
    (hop, n) => n === hops.findIndex(({ group, topic }) => group === hop.group && topic === hop.topic),
  );
};
