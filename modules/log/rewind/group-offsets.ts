// Waits until a group is empty, sets its offsets, and waits until it has caught up.
import { type Admin, type GroupState, sinkReading } from "../../../infra/kafka/kafka.ts";
import { type Clock, systemClock } from "../../../infra/runtime/timing/retry.ts";
import { caughtUp, eventsOf, forward, movesOf, type PartitionPlan, type RewindPlan } from "./rewind-plan.ts";

/**
 * Offsets are set and workers may join, but none reads. The rewind completes by itself once a
 * worker runs.
 */
export class RewindStalled extends Error {
  readonly verdict = "transient";
}

export interface GroupPorts {
  readonly admin: Pick<Admin, "committed" | "setOffsets" | "describeGroups">;
  readonly onStep?: (text: string) => void;
  readonly onProgress?: (done: number, total: number) => void;
  readonly clock?: Clock;
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

/** Polls until the group has no member; on timeout throws with the names of those that stay. */
export const untilEmpty = async (
  { admin, clock = systemClock }: Pick<GroupPorts, "admin" | "clock">,
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

/**
 * Step 6. A crash between two tries costs nothing: the plan is stored, and setting the same offsets
 * twice has the effect of once.
 */
export const setAndCompare = async (ports: GroupPorts, group: string, plan: RewindPlan): Promise<void> => {
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
export const follow = async (ports: GroupPorts, group: string, plan: RewindPlan): Promise<void> => {
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
