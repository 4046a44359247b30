// Reads the state of the consumer groups: members, hosted stages and sinks, lag, and holds.

import { appendedAt, type Lag } from "../../../infra/kafka/kafka.ts";
import type { AnyReader } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import type { Hold } from "../rewind/hold.ts";
import type { RewindSources } from "../rewind/rewind-ports.ts";
import { hostings, openHolds } from "./group-holds.ts";
import { groupNamed } from "./hosting.ts";
import { hostsOf, type RecordedHosting } from "./hosts.ts";
import { revisionsInForce } from "./stage-revisions.ts";

type Sources = Pick<RewindSources, "pool" | "kafka" | "admin" | "topology">;

interface PartitionLag extends Lag {
  /** When the oldest waiting record was appended; null when none waits. */
  readonly waitingSince: number | null;
}
export interface GroupRead {
  readonly group: string;
  readonly topic: string;
  /** Stages or sinks, in the order of the chain. */
  readonly nodes: readonly string[];
  /** The nodes as people read them, with the revision if it is recorded. */
  readonly hosts: readonly string[];
  readonly state: string;
  readonly members: readonly { readonly clientId: string; readonly host: string }[];
  readonly partitions: readonly PartitionLag[];
  readonly lag: number;
  /** Age of the oldest waiting record. */
  readonly seconds: number;
  readonly hold: Hold | null;
}

/** Returns the lag of all partitions, empty ones included. */
const lagOf = async (
  { kafka, admin }: Pick<Sources, "kafka" | "admin">,
  group: string,
  topic: string,
): Promise<readonly PartitionLag[]> => {
  const known = await admin.lag(group, [topic]);
  const waiting = new Map(
    known.flatMap((one) =>
      one.lag > 0 ? [[one.partition, Math.max(one.committed ?? one.low, one.low)] as const] : [],
    ),
  );
  const since = await appendedAt(kafka, topic, waiting);
  return known.map((one) => ({ ...one, waitingSince: since.get(one.partition) ?? null }));
};

/** A group that may exist: its topic, and the hosting that workers recorded. */
interface KnownGroup {
  readonly group: string;
  readonly topic: string;
  readonly recorded: readonly string[];
}

const knownGroups = (nodes: readonly AnyReader[], hosted: readonly RecordedHosting[]): readonly KnownGroup[] => {
  const apart = nodes.map(({ name, from }) => ({ group: groupNamed(name), topic: from.name, recorded: [name] }));
  const known = new Map(apart.map((one): [string, KnownGroup] => [one.group, one]));
  for (const { group, topic, nodes: recorded } of hosted) known.set(group, { group, topic, recorded });
  return [...known.values()];
};

/**
 * Returns the groups in the order of the data flow. Leaves out a group that no worker hosts any
 * more and that has no members.
 */
export const groupsNow = async (sources: Sources, now: number): Promise<readonly GroupRead[]> => {
  const { pool, admin, topology } = sources;
  const nodes = readersOf(topology);
  const [hosted, holds] = await Promise.all([hostings(pool), openHolds(pool).all()]);
  const known = knownGroups(nodes, hosted);
  const states = new Map(
    (await admin.describeGroups(known.map(({ group }) => group))).map((state) => [state.group, state]),
  );
  const hasMembers = (group: string): boolean => (states.get(group)?.members.length ?? 0) > 0;
  const hosts = hostsOf(topology, hosted, hasMembers);
  const names = nodes.map(({ name }) => name);
  const revisions = await revisionsInForce(pool, names);

  const read = async ({ group, topic, recorded }: KnownGroup): Promise<readonly GroupRead[]> => {
    const hold = holds.find((one) => one.group === group) ?? null;
    // A group without members keeps only the stages and sinks that no other group has taken over.
    const left = nodes.map(hosts).flatMap((host, n) => (host.isRecorded && host.group === group ? names[n]! : []));
    if (!hasMembers(group) && hold === null && left.length === 0) return [];
    const hosted = hasMembers(group) || left.length === 0 ? recorded : left;
    const { state = "unknown", members = [] } = states.get(group) ?? {};
    const partitions = await lagOf(sources, group, topic);
    const oldest = Math.min(...partitions.map(({ waitingSince }) => waitingSince ?? Number.POSITIVE_INFINITY));
    return [
      {
        group,
        topic,
        nodes: hosted,
        hosts: hosted.map((name) => withRevision(name, revisions)),
        state,
        members: members.map(({ clientId, host }) => ({ clientId, host })),
        partitions,
        lag: partitions.reduce((sum, { lag }) => sum + lag, 0),
        seconds: Number.isFinite(oldest) ? Math.max(0, (now - oldest) / 1_000) : 0,
        hold,
      },
    ];
  };
  const placeOf = ({ group }: GroupRead): number => names.findIndex((name) => groupNamed(name) === group);
  const found = (await Promise.all(known.map(read))).flat();
  return found.sort((a, b) => placeOf(a) - placeOf(b));
};

const withRevision = (
  name: string,
  revisions: readonly { readonly stage: string; readonly revision: number }[],
): string => {
  const own = revisions.filter(({ stage }) => stage === name);
  // A stage has two revisions in force while a partition has had no event since the update.
  return own.length === 0
    ? name
    : `${name}@${[...new Set(own.map(({ revision }) => revision))].sort((a, b) => a - b).join("/")}`;
};
