// The ports of a rewind: the broker, the holds and revisions in Postgres, the audit. The command
// line and the guarantee tests open them.
import type { Pool } from "pg";
import { type Admin, appendedAt, type Kafka } from "../../../infra/kafka/kafka.ts";
import type { Topology } from "../../../stream/flow.ts";
import { beginOperation, type OperationPorts, resumeOperation } from "../../base/operations/operations.ts";
import { hostings, openHolds, openReplayOf } from "../groups/group-holds.ts";
import { groupNamed } from "../groups/hosting.ts";
import { revisionsInForce } from "../groups/stage-revisions.ts";
import type { Hold } from "./hold.ts";
import { type RewindPorts, RewindRefused, type RewindRequest } from "./rewind.ts";
import type { PartitionPlan } from "./rewind-plan.ts";

export interface RewindSources {
  readonly pool: Pool;
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly audit: OperationPorts;
  readonly topology: Topology;
}

/** The group of a stage or sink under the current hosting. */
export interface FoundGroup {
  readonly group: string;
  readonly topic: string;
  /** Stages or sinks, in the order of the chain. */
  readonly nodes: readonly string[];
}

/**
 * Returns the group that hosts a stage or sink: the one with members, else the one joined last,
 * else the group of its own name if it has committed something. Throws RewindRefused when there is
 * none, and an Error for an unknown stage or sink.
 */
export const findGroup = async (
  { pool, admin, topology }: Pick<RewindSources, "pool" | "admin" | "topology">,
  name: string,
): Promise<FoundGroup> => {
  const node = topology.nodes.find((one) => one.is !== "edge" && one.name === name);
  if (node === undefined || node.is === "edge") throw new Error(`${name} is no stage and no sink`);
  const recorded = (await hostings(pool)).filter(({ nodes }) => nodes.includes(name));
  const own = { group: groupNamed(name), topic: node.from.name, nodes: [name] };
  const candidates: FoundGroup[] = [...recorded];
  if (!recorded.some(({ group }) => group === own.group) && (await admin.committed(own.group, own.topic)).size > 0)
    candidates.push(own);
  const [first] = candidates;
  if (first === undefined)
    throw new RewindRefused(`no worker hosts ${name}, and none has: start one with it, see docs/operate.md`);
  const states = await admin.describeGroups(candidates.map(({ group }) => group));
  return (
    candidates.find(({ group }) => states.some((state) => state.group === group && state.members.length > 0)) ?? first
  );
};

/**
 * Throws RewindRefused for a stage that is not the first of its group: fused stages go back
 * together, under the name of the first.
 */
export const refuseBehind = (name: string, { group, nodes }: FoundGroup): void => {
  const [first] = nodes;
  if (first !== name)
    throw new RewindRefused(
      `${name} is hosted behind ${first} in ${group}, and fused ones go back together ` +
        `(${nodes.join(", ")}): tributary rewind ${first} --to ...`,
    );
};

/** Checks law R12: going back must not change what another revision decided. */
const otherRevision = async (
  { pool, topology }: Pick<RewindSources, "pool" | "topology">,
  { nodes, topic }: FoundGroup,
  moves: readonly PartitionPlan[],
): Promise<string | null> => {
  const stages = topology.nodes.filter((node) => node.is === "stage").filter(({ name }) => nodes.includes(name));
  const known = await revisionsInForce(
    pool,
    stages.map(({ name }) => name),
  );
  for (const { name, revision: now = 1 } of stages)
    for (const { partition, target } of moves) {
      const row = known.find((one) => one.stage === name && one.topic === topic && one.partition === partition);
      // The first releases did not record revisions; their decisions count as revision 1.
      const { revision, began, since } = row ?? { revision: 1, began: 0, since: null };
      const cure =
        `a rewind would let it reach what was decided before. Use: tributary reprocess --stage ${name} ` +
        "--from <time> --to <time>";
      if (revision !== now)
        return (
          `${name} has revision ${now} now, and ${topic}/${partition} was decided by revision ${revision}; ` + `${cure}`
        );
      if (target < began)
        return (
          `${name} decides ${topic}/${partition} with revision ${now} from offset ${began} on (since ` +
          `${new Date(since!).toISOString()}), and ${target} lies before that; ${cure}`
        );
    }
  return null;
};

/** The reads of a rewind before it touches anything. */
export const rewindReads = (
  rewinding: Omit<RewindSources, "audit">,
): Pick<RewindPorts, "admin" | "holds" | "appendedAt" | "forbidden"> => {
  const { pool, kafka, admin } = rewinding;
  return {
    admin,
    holds: openHolds(pool),
    appendedAt: (topic, offsets) => appendedAt(kafka, topic, offsets),
    forbidden: async (group, topic, moves) => {
      const recorded = (await hostings(pool)).find((one) => one.group === group);
      const hosting = recorded ?? { group, topic, nodes: [group.slice(group.indexOf(".") + 1)] };
      const replay = await openReplayOf(pool, hosting.nodes);
      if (replay !== null)
        return (
          `${replay} is writing to ${hosting.nodes.join(", ")}; wait for it (tributary replay --follow ` +
          `${replay}), or end it (--cancel ${replay})`
        );
      return otherRevision(rewinding, hosting, moves);
    },
  };
};

export const rewindPorts = (rewinding: RewindSources): RewindPorts => {
  const { audit } = rewinding;
  const planned = ({ group, actor, reason }: RewindRequest) => ({
    kind: "rewind" as const,
    actor,
    target: group,
    ...(reason !== undefined && { reason }),
  });
  return {
    ...rewindReads(rewinding),
    begin: async (request, plan) =>
      (await beginOperation(audit, planned(request), { ...plan, group: request.group }, request.operation)).id,
    ended: (operation, request, phase, detail) =>
      resumeOperation(audit, operation, planned(request)).end(phase, detail),
  };
};

/**
 * Ends a hold that will not be continued; the audit names who released it. Throws RewindRefused
 * when the group is not held.
 */
export const releaseGroup = (
  { pool, audit }: Pick<RewindSources, "pool" | "audit">,
  group: string,
  releasedBy: string,
): Promise<Hold> => {
  const holds = openHolds(pool);
  return holds.alone(group, async () => {
    const hold = await holds.of(group);
    if (hold === null)
      throw new RewindRefused(
        `${group} is not held; held groups: ${(await holds.all()).map((one) => one.group).join(", ") || "none"}`,
      );
    const { operation, kind, actor, reason } = hold;
    const plan = { kind, actor, target: group, ...(reason !== null && { reason }) };
    // A crash between the two leaves the hold, and the same command ends it.
    await resumeOperation(audit, operation, plan).end("failed", { released_by: releasedBy });
    await holds.end(operation);
    return hold;
  });
};

export { RewindRefused };
