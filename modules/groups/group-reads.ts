// What is known of the consumer groups: who is in them, what they host, how far they are behind,
// what holds them.

import type { Lag } from "../../infra/kafka/admin.ts";
import { appendedAt } from "../../infra/kafka/peek.ts";
import { hostings, openHolds } from "./group-holds.ts";
import type { Hold } from "./rewind.ts";
import type { Rewinding } from "./rewinding.ts";
import { revisionsInForce } from "./stage-revisions.ts";

type Sources = Pick<Rewinding, "pool" | "kafka" | "admin" | "topology">;

export interface PartitionLag extends Lag {
  /** When the oldest record that waits was appended; null when none waits. */
  readonly waitingSince: number | null;
}
export interface GroupRead {
  readonly group: string;
  readonly topic: string;
  /** Stages or sinks, in the order of the chain. */
  readonly nodes: readonly string[];
  /** The same for people, with the revision where one is known. */
  readonly hosts: readonly string[];
  readonly state: string;
  readonly members: readonly { readonly clientId: string; readonly host: string }[];
  readonly partitions: readonly PartitionLag[];
  readonly lag: number;
  /** Age of the oldest record that waits. */
  readonly seconds: number;
  readonly hold: Hold | null;
}

/** Partitions that were never committed are left out. */
export const lagOf = async (
  { kafka, admin }: Pick<Sources, "kafka" | "admin">,
  group: string,
  topic: string,
): Promise<readonly PartitionLag[]> => {
  const known = (await admin.lag(group, [topic])).filter(({ committed }) => committed !== null);
  const waiting = new Map(
    known.flatMap((one) => (one.lag > 0 ? [[one.partition, Math.max(one.committed!, one.low)] as const] : [])),
  );
  const since = await appendedAt(kafka, topic, waiting);
  return known.map((one) => ({ ...one, waitingSince: since.get(one.partition) ?? null }));
};

/**
 * In the order that data flows. A group that nobody hosts any more, and whose members are gone, is
 * left out.
 */
export const groupsNow = async (sources: Sources, now: number): Promise<readonly GroupRead[]> => {
  const { pool, admin, topology } = sources;
  const [told, holds] = await Promise.all([hostings(pool), openHolds(pool).all()]);
  const nodes = topology.nodes.flatMap((node) => (node.is === "edge" ? [] : [node]));
  const known = new Map(nodes.map(({ name, from }) => [`tributary.${name}`, { topic: from.name, hosts: [name] }]));
  for (const { group, topic, nodes: hosted } of told) known.set(group, { topic, hosts: [...hosted] });
  const states = new Map((await admin.describeGroups([...known.keys()])).map((state) => [state.group, state]));
  const revisions = await revisionsInForce(
    pool,
    nodes.map(({ name }) => name),
  );
  const read = async ([group, { topic, hosts }]: readonly [
    string,
    { readonly topic: string; readonly hosts: readonly string[] },
  ]): Promise<readonly GroupRead[]> => {
    const state = states.get(group);
    const hold = holds.find((one) => one.group === group) ?? null;
    const isHosted = (state?.members.length ?? 0) > 0;
    const isTold = told.some((one) => one.group === group && one.nodes.some((node) => newestOf(node) === group));
    if (!isHosted && hold === null && !isTold) return [];
    const partitions = await lagOf(sources, group, topic);
    const oldest = Math.min(...partitions.map(({ waitingSince }) => waitingSince ?? Number.POSITIVE_INFINITY));
    return [
      {
        group,
        topic,
        nodes: hosts,
        hosts: hosts.map((name) => withRevision(name, revisions)),
        state: state?.state ?? "unknown",
        members: (state?.members ?? []).map(({ clientId, host }) => ({ clientId, host })),
        partitions,
        lag: partitions.reduce((sum, { lag }) => sum + lag, 0),
        seconds: Number.isFinite(oldest) ? Math.max(0, (now - oldest) / 1_000) : 0,
        hold,
      },
    ];
  };
  // `told` has the newest first.
  const newestOf = (node: string): string | undefined => told.find((one) => one.nodes.includes(node))?.group;
  const order = (group: string): number => nodes.findIndex(({ name }) => `tributary.${name}` === group);
  const found = (await Promise.all([...known].map(read))).flat();
  return found.sort((a, b) => order(a.group) - order(b.group));
};

const withRevision = (
  name: string,
  revisions: readonly { readonly stage: string; readonly revision: number }[],
): string => {
  const own = revisions.filter(({ stage }) => stage === name);
  // Two of them while a partition has had no event since the update.
  return own.length === 0
    ? name
    : `${name}@${[...new Set(own.map(({ revision }) => revision))].sort((a, b) => a - b).join("/")}`;
};
