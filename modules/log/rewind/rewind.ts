// Takes a consumer group back in the log: its workers leave, its offsets are set, read back and
// compared, and its workers join again.
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { systemClock } from "../../../infra/runtime/timing/retry.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { follow, type GroupPorts, setAndCompare, untilEmpty } from "./group-offsets.ts";
import type { Hold, Holds } from "./hold.ts";
import {
  caughtUp,
  eventsOf,
  type Gap,
  movesOf,
  type PartitionFound,
  type PartitionPlan,
  planOf,
  type RewindPlan,
  type RewindTo,
} from "./rewind-plan.ts";

/** The request is valid but is refused; nothing was touched. */
export class RewindRefused extends Error {}

export interface RewindPorts extends GroupPorts {
  readonly admin: GroupPorts["admin"] & Pick<Admin, "watermarks" | "offsetsAt">;
  readonly holds: Holds;
  /** Returns when the records at these offsets were appended. */
  readonly appendedAt: (topic: string, offsets: ReadonlyMap<number, number>) => Promise<ReadonlyMap<number, UnixMs>>;
  /**
   * Returns in one sentence why these partitions may not go back (law R12, an open replay); null
   * when they may.
   */
  readonly forbidden: (group: string, topic: string, moves: readonly PartitionPlan[]) => Promise<string | null>;
  /** Records the start of the operation and returns its id. Called before anything is touched. */
  readonly begin: (request: RewindRequest, plan: RewindPlan) => Promise<string>;
  readonly ended: (
    operation: string,
    request: RewindRequest,
    phase: "succeeded" | "failed" | "refused",
    detail: object,
  ) => Promise<void>;
}

export interface RewindRequest {
  readonly group: string;
  readonly topic: string;
  readonly to: RewindTo;
  /** The target in the user's words; a command that is run again must repeat it. */
  readonly text: string;
  readonly actor: string;
  readonly reason?: string;
  /** Goes back as far as the log reaches when retention has cut the window. */
  readonly isPartial?: boolean;
  /** Continues only a hold of this operation; without it, any hold with the same target. */
  readonly operation?: string;
}

export interface RewindReport extends RewindPlan {
  readonly operation: string;
  readonly group: string;
  readonly events: number;
  readonly seconds: number;
  /** True when this run continued a rewind that an earlier run had begun. */
  readonly isResumed: boolean;
}

/** Reads the broker's state and returns where each partition would go. Changes nothing. */
export const planRewind = async (
  { admin, appendedAt }: Pick<RewindPorts, "admin" | "appendedAt">,
  { group, topic, to, text }: Pick<RewindRequest, "group" | "topic" | "to" | "text">,
): Promise<{ readonly plan: RewindPlan; readonly gaps: readonly Gap[] }> => {
  const [marks, committed, atTime] = await Promise.all([
    admin.watermarks(topic),
    admin.committed(group, topic),
    to.kind === "time" ? admin.offsetsAt(topic, to.at) : null,
  ]);
  // A record can be missing only where retention removed some and the window reaches the start of
  // the log; only there is the time of the first record read.
  const cut = marks.filter(
    ({ partition, low, high }) => low > 0 && low < high && atTime !== null && (atTime.get(partition) ?? low) <= low,
  );
  const lowAt = await appendedAt(topic, new Map(cut.map(({ partition, low }) => [partition, low])));
  const found = marks.map(
    ({ partition, low }): PartitionFound => ({
      partition,
      low,
      committed: committed.get(partition) ?? null,
      atTime: atTime?.get(partition) ?? (to.kind === "time" ? low : null),
      lowAt: lowAt.get(partition) ?? null,
    }),
  );
  return planOf({ topic, to, text }, found);
};

/** Returns in one sentence the first reason against this plan; null when there is none. */
export const refusal = async (
  ports: Pick<RewindPorts, "forbidden">,
  request: Pick<RewindRequest, "group" | "topic" | "isPartial">,
  plan: RewindPlan,
  gaps: readonly Gap[],
): Promise<string | null> => {
  const { group, topic } = request;
  if (plan.partitions.length === 0)
    return `${group} has committed nothing of ${topic} yet: there is nothing to go back from`;
  const moves = movesOf(plan);
  if (moves.length === 0)
    return (
      `${group} stands at or before that point in every partition of ${topic}; a rewind only goes ` +
      "back, never forward"
    );
  if (gaps.length > 0 && request.isPartial !== true)
    return (
      `retention has removed a part of that window: ${gapText(gaps)}. With --partial the group goes ` +
      "back as far as the log reaches; for what is missing see: tributary restore --help"
    );
  return ports.forbidden(group, topic, moves);
};

/** Describes the gaps: the widest span of time, or the partitions with their offsets. */
const gapText = (gaps: readonly Gap[]): string => {
  const inTime = gaps.filter((gap) => gap.kind === "time");
  if (inTime.length > 0) {
    const at = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
    return (
      `${at(Math.min(...inTime.map(({ from }) => from)))} to ` +
      `${at(Math.max(...inTime.map(({ until }) => until)))} UTC, in ${inTime.length} partitions`
    );
  }
  return gaps
    .map(({ partition, from, until }) => `offsets ${from} to ${until - 1} of partition ${partition}`)
    .join(", ");
};

/** Steps 1 and 2: writes the operation and the hold before the group leaves. */
const hold = async (
  ports: RewindPorts,
  request: RewindRequest,
): Promise<{ readonly held: Hold; readonly isResumed: boolean }> => {
  const { group, text, actor, reason = null } = request;
  const held = await ports.holds.of(group);
  // A hold of the caller's own operation is followed to its end. If it ended here, the rewind would
  // start a second time.
  const found = request.operation === held?.operation ? held : await finished(ports, request, held);
  if (found !== null) {
    const { operation, kind, plan } = found;
    if (kind !== "rewind" || (request.operation ?? operation) !== operation)
      throw new RewindRefused(
        `${group} is held by ${operation} (${kind}); end that first, or: tributary groups release ${group}`,
      );
    if (plan !== null && plan.to !== text)
      throw new RewindRefused(
        `another rewind of ${group} is open: ${operation} to ${plan.to}. To go on with it: the same ` +
          `command with --to ${plan.to}; to give it up: tributary groups release ${group}`,
      );
    ports.onStep?.(`going on with ${operation}, which was begun at ${new Date(found.since).toISOString()}`);
    return { held: found, isResumed: true };
  }
  const { plan, gaps } = await planRewind(ports, request);
  const problem = await refusal(ports, request, plan, gaps);
  if (problem !== null) throw new RewindRefused(problem);
  const operation = await ports.begin(request, plan);
  // A crash before this line leaves an operation without an end. After it the group stays left, and
  // the same command continues.
  await ports.holds.take({ group, operation, kind: "rewind", actor, reason });
  return { held: (await ports.holds.of(group))!, isResumed: false };
};

/**
 * Ends a rewind whose group has caught up meanwhile: only its command died before it could notice.
 * Returns null then, else the hold.
 */
const finished = async (ports: RewindPorts, request: RewindRequest, found: Hold | null): Promise<Hold | null> => {
  if (found === null || found.plan === null || found.releasedAt === null) return found;
  const { plan, operation, group } = found;
  if (caughtUp(plan, await ports.admin.committed(group, plan.topic)) < eventsOf(plan)) return found;
  await ports.ended(operation, request, "succeeded", plan);
  await ports.holds.end(operation);
  return null;
};

/**
 * Steps 3 to 5, once the group is empty: the committed offsets are now the bound that the rewind
 * must never pass. Stores the plan before anything moves.
 */
const keptPlan = async (ports: RewindPorts, request: RewindRequest, held: Hold): Promise<RewindPlan> => {
  if (held.plan !== null) return held.plan;
  const { plan, gaps } = await planRewind(ports, request);
  const problem = await refusal(ports, request, plan, gaps);
  if (problem !== null) throw new RewindRefused(problem);
  await ports.holds.keepPlan(held.operation, plan);
  return plan;
};

/**
 * Takes the group back to min(committed, `to`) in every partition and resolves when it has caught
 * up (docs/design/laws.md, "Rewind protocol"). After a crash the same call continues. Throws
 * RewindRefused when nothing was touched; after any other error the group stays held.
 */
export const rewindGroup = (ports: RewindPorts, request: RewindRequest): Promise<RewindReport> =>
  ports.holds.alone(request.group, async () => {
    const { clock = systemClock } = ports;
    const { group } = request;
    const startedAt = clock.now();
    const { held, isResumed } = await hold(ports, request);
    const { operation } = held;
    let plan = held.plan;
    try {
      if (held.releasedAt === null) {
        ports.onStep?.(`${group} is held; waiting until its workers have left it`);
        await untilEmpty(ports, group);
        plan = await keptPlan(ports, request, held);
        ports.onStep?.(`the group is empty; setting the offsets of ${movesOf(plan).length} partitions`);
        await setAndCompare(ports, group, plan);
        // Step 7. A crash before the release leaves the group held; after it the workers join, and
        // the same command follows them.
        await ports.holds.release(operation);
        ports.onStep?.("the offsets are set, read back and compared; the workers join again");
      }
    } catch (error) {
      // Without a stored plan nothing has moved, so the workers may join again.
      if ((await ports.holds.of(group))?.plan === null) await ports.holds.end(operation);
      await ports.ended(operation, request, error instanceof RewindRefused ? "refused" : "failed", {
        problem: (error as Error).message,
        plan,
      });
      throw error;
    }
    await follow(ports, group, plan!);
    const seconds = (clock.now() - startedAt) / 1_000;
    // A crash between the two leaves the hold; the next rewind of the group finds it caught up and
    // ends it.
    await ports.ended(operation, request, "succeeded", { ...plan!, seconds });
    await ports.holds.end(operation);
    return { ...plan!, operation, group, events: eventsOf(plan!), seconds, isResumed };
  });
