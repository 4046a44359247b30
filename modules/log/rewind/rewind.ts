// Takes a consumer group back in the log: its workers leave, its offsets are set, read back and
// compared, and its workers join again.
import { type Admin, type GroupState, sinkReading } from "../../../infra/kafka/kafka.ts";
import { type Clock, systemClock } from "../../../infra/runtime/timing/retry.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import {
  caughtUp,
  eventsOf,
  forward,
  type Gap,
  movesOf,
  type PartitionFound,
  type PartitionPlan,
  planOf,
  type RewindPlan,
  type RewindTo,
} from "./rewind-plan.ts";

/**
 * Why a group is held, and how far the operation that holds it is. It outlives the process that
 * wrote it.
 */
export interface Hold {
  readonly group: string;
  readonly operation: string;
  readonly kind: "rewind" | "relearn" | "set_aside";
  readonly actor: string;
  readonly reason: string | null;
  readonly since: UnixMs;
  /**
   * For a rewind: stored once the group has left. The same command run again uses these offsets and
   * computes no others. For a relearn or a set-aside: stored from the start, without partitions;
   * its `to` names what the same command must request.
   */
  readonly plan: RewindPlan | null;
  /** When workers were allowed to join again; the hold stays until the group has caught up. */
  readonly releasedAt: UnixMs | null;
}

/**
 * Where holds are stored (modules/log/groups/group-holds.ts). Every change names the operation, and
 * throws when its hold was released.
 */
export interface Holds {
  /** Runs `work` while no other command works on the group; throws HeldElsewhere when one does. */
  readonly alone: <T>(group: string, work: () => Promise<T>) => Promise<T>;
  readonly of: (group: string) => Promise<Hold | null>;
  readonly all: () => Promise<readonly Hold[]>;
  readonly take: (
    hold: Pick<Hold, "group" | "operation" | "kind" | "actor" | "reason"> & Partial<Pick<Hold, "plan">>,
  ) => Promise<void>;
  readonly keepPlan: (operation: string, plan: RewindPlan) => Promise<void>;
  readonly release: (operation: string) => Promise<void>;
  /** Deletes the hold. */
  readonly end: (operation: string) => Promise<void>;
}

/** The request is valid but is refused; nothing was touched. */
export class RewindRefused extends Error {}

/**
 * Offsets are set and workers may join, but none reads. The rewind completes by itself once a
 * worker runs.
 */
export class RewindStalled extends Error {
  readonly verdict = "transient";
}

export interface RewindPorts {
  readonly admin: Pick<Admin, "watermarks" | "committed" | "offsetsAt" | "setOffsets" | "describeGroups">;
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
  readonly onStep?: (text: string) => void;
  readonly onProgress?: (done: number, total: number) => void;
  readonly clock?: Clock;
}

export interface RewindRequest {
  readonly group: string;
  readonly topic: string;
  readonly to: RewindTo;
  /** The target as it was typed; a command that is run again must repeat it. */
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

/**
 * A killed member keeps its place in the group for a whole session, and a sink has the longest
 * (docs/design/laws.md, "Rewind protocol").
 */
const EMPTY_WITHIN_MS = sinkReading.sessionTimeoutMs + 15_000;
const SET_TRIES = 5;
const ASKED_EVERY_MS = 500;
/**
 * Longer than a member that was killed while joining blocks the others, and longer than a write of
 * a full fetch takes on a busy machine.
 */
export const STALLED_MS = 300_000;

const pause = (clock: Clock) => clock.sleep(ASKED_EVERY_MS);

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

/** Polls until the group has no member; on timeout throws with the names of those that stay. */
export const untilEmpty = async (
  { admin, clock = systemClock }: Pick<RewindPorts, "admin" | "clock">,
  group: string,
): Promise<void> => {
  const end = clock.now() + EMPTY_WITHIN_MS;
  for (;;) {
    const [state] = await admin.describeGroups([group]);
    if (state === undefined || isEmpty(state)) return;
    if (clock.now() > end) {
      const who = state.members.map(({ clientId, host }) => `${clientId}${host}`).join(", ");
      throw new Error(
        `${group} is still ${state.state} after ${EMPTY_WITHIN_MS / 1_000} s, with ` +
          `${who || "no member named"}: a worker that cannot ask Postgres keeps its groups`,
      );
    }
    await pause(clock);
  }
};
const isEmpty = ({ state, members }: GroupState): boolean =>
  (state === "Empty" || state === "Dead") && members.length === 0;

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
 * Step 6. A crash between two tries costs nothing: the plan is stored, and setting the same offsets
 * twice has the effect of once.
 */
const setAndCompare = async (ports: RewindPorts, group: string, plan: RewindPlan): Promise<void> => {
  const { topic } = plan;
  const targets = new Map(movesOf(plan).map(({ partition, target }) => [partition, target]));
  let wrong: readonly PartitionPlan[] = [];
  for (let tries = 1; tries <= SET_TRIES; tries++) {
    await untilEmpty(ports, group);
    await ports.admin
      .setOffsets(group, topic, targets)
      .catch((error: Error) => ports.onStep?.(`not set: ${error.message}`));
    const now = await ports.admin.committed(group, topic);
    wrong = plan.partitions.filter(({ partition, target }) => now.get(partition) !== target);
    // Law R10 is checked on the offsets that were read back, not on the plan.
    const ahead = forward(plan, now);
    if (ahead.length > 0)
      throw new Error(`partitions ${ahead.join(", ")} of ${topic} stand further than they had committed (law R10)`);
    if (wrong.length === 0) return;
    ports.onStep?.(`${wrong.length} partitions are not where they were set; try ${tries} of ${SET_TRIES}`);
  }
  throw new Error(
    `partitions ${wrong.map(({ partition }) => partition).join(", ")} of ${topic} do not take their ` +
      `offsets; ${group} stays held`,
  );
};

/** Waits until every partition has reached its former committed offset. */
const follow = async (ports: RewindPorts, group: string, plan: RewindPlan): Promise<void> => {
  const { clock = systemClock } = ports;
  const total = eventsOf(plan);
  let movedAt = clock.now();
  let before = -1;
  for (;;) {
    const done = caughtUp(plan, await ports.admin.committed(group, plan.topic));
    ports.onProgress?.(done, total);
    if (done >= total) return;
    if (done !== before) movedAt = clock.now();
    before = done;
    if (clock.now() - movedAt > STALLED_MS)
      throw new RewindStalled(
        `${group} has read nothing for ${STALLED_MS / 1_000} s: its offsets are set and it may be ` +
          "joined, so it goes on by itself once a worker runs; see: tributary groups",
      );
    await pause(clock);
  }
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
