// Rebuilds the fast memory of a stage: its group leaves, the memory is emptied, and the stage folds
// its input again with outputs discarded.

import { systemClock } from "../../../infra/runtime/timing/retry.ts";
import { RewindStalled, STALLED_MS, untilEmpty } from "./group-offsets.ts";
import type { Hold } from "./hold.ts";
import { type RewindPorts, RewindRefused } from "./rewind.ts";
import { movesOf, type PartitionPlan, type RewindPlan } from "./rewind-plan.ts";

export interface RelearnRequest {
  readonly stage: string;
  /** The group of the chain in which the stage is hosted, and its input topic. */
  readonly group: string;
  readonly topic: string;
  readonly actor: string;
  readonly reason?: string;
  /** Continues only a hold of this operation; without it, any hold of the same stage. */
  readonly operation?: string;
}

export interface RelearnPorts extends Pick<RewindPorts, "holds" | "forbidden" | "onStep" | "onProgress" | "clock"> {
  readonly admin: RewindPorts["admin"];
  /** Returns for each partition the offset up to which the stage remembers. */
  readonly marks: () => Promise<ReadonlyMap<number, number>>;
  /** Deletes the memory of the stage, its marks first. Returns the number of deleted keys. */
  readonly forget: () => Promise<number>;
  readonly begin: (request: RelearnRequest, detail: object) => Promise<string>;
  readonly ended: (
    operation: string,
    request: RelearnRequest,
    phase: "succeeded" | "failed",
    detail: object,
  ) => Promise<void>;
}

export interface RelearnReport {
  readonly operation: string;
  readonly keys: number;
  readonly events: number;
  readonly seconds: number;
}

const ASKED_EVERY_MS = 500;

/**
 * A stage notices an empty memory only at its next event, which may take long to arrive. So each
 * partition goes back by its last committed event, whose output is the same again. A partition
 * where law R12 or an open replay forbids that, or whose last event retention has removed, waits
 * for its next event.
 */
const nudges = async ({ admin, forbidden }: RelearnPorts, request: RelearnRequest): Promise<RewindPlan> => {
  const { group, topic } = request;
  const [marks, committed] = await Promise.all([admin.watermarks(topic), admin.committed(group, topic)]);
  const partitions: PartitionPlan[] = [];
  for (const { partition, low } of marks) {
    const c = committed.get(partition);
    if (c === undefined || c <= low) continue;
    const move = { partition, committed: c, target: c - 1, low };
    partitions.push((await forbidden(group, topic, [move])) === null ? move : { ...move, target: c });
  }
  return { topic, to: textOf(request), partitions };
};

/**
 * The request as its hold stores it. It names the stage, since each stage of a group has its own
 * memory.
 */
const textOf = ({ stage }: RelearnRequest): string => `relearn ${stage}`;

const held = async (
  ports: RelearnPorts,
  request: RelearnRequest,
): Promise<{ readonly hold: Hold; readonly isResumed: boolean }> => {
  const { group, topic, actor, reason = null } = request;
  const found = await ports.holds.of(group);
  if (found?.kind === "relearn" && (request.operation ?? found.operation) === found.operation) {
    const { operation, plan } = found;
    if (plan !== null && plan.to !== textOf(request))
      throw new RewindRefused(
        `another relearn of ${group} is open: ${operation} (${plan.to}); run that again, or: tributary ` +
          `groups release ${group}`,
      );
    return { hold: found, isResumed: true };
  }
  if (found !== null)
    throw new RewindRefused(
      `${group} is held by ${found.operation} (${found.kind}); end that first, or: tributary groups release ${group}`,
    );
  const operation = await ports.begin(request, {});
  // After a crash from here on the group stays on hold, and the same command continues.
  await ports.holds.take({
    group,
    operation,
    kind: "relearn",
    actor,
    reason,
    plan: { topic, to: textOf(request), partitions: [] },
  });
  return { hold: (await ports.holds.of(group))!, isResumed: false };
};

/** Waits until the memory of every partition that went back has reached its commit again. */
const follow = async (ports: RelearnPorts, plan: RewindPlan): Promise<void> => {
  const { clock = systemClock } = ports;
  const moves = movesOf(plan);
  const total = moves.reduce((sum, { committed, low }) => sum + committed - low, 0);
  let movedAt = clock.now();
  let before = -1;
  for (;;) {
    const marks = await ports.marks();
    const done = moves.reduce(
      (sum, { partition, committed, low }) => sum + Math.min(committed, Math.max(low, marks.get(partition) ?? 0)) - low,
      0,
    );
    ports.onProgress?.(done, total);
    if (done >= total) return;
    if (done !== before) movedAt = clock.now();
    before = done;
    if (clock.now() - movedAt > STALLED_MS)
      throw new RewindStalled(
        `nothing was learnt for ${STALLED_MS / 1_000} s: the memory is empty and the group may be ` +
          "joined, so it goes on by itself once a worker runs; see: tributary groups",
      );
    await clock.sleep(ASKED_EVERY_MS);
  }
};

/**
 * Resolves when the memory reaches the committed offsets of the group. After a crash the same call
 * continues. Throws RewindRefused when nothing was touched; after any other error the group stays
 * held once the memory may have been emptied.
 */
export const relearnStage = (ports: RelearnPorts, request: RelearnRequest): Promise<RelearnReport> =>
  ports.holds.alone(request.group, async () => {
    const { clock = systemClock, onStep } = ports;
    const { group, topic, stage } = request;
    const startedAt = clock.now();
    const { hold, isResumed } = await held(ports, request);
    let { plan } = hold;
    let keys = 0;
    // An earlier run may have emptied the memory already.
    let isTouched = isResumed;
    try {
      if (hold.releasedAt === null) {
        onStep?.(`${group} is held; waiting until its workers have left it`);
        await untilEmpty(ports, group);
        isTouched = true;
        keys = await ports.forget();
        onStep?.(`${keys} keys of ${stage} are forgotten`);
        // Stored before the offsets are set, so that a further run does not go back by one more
        // event.
        if (plan === null || plan.partitions.length === 0) plan = await nudges(ports, request);
        await ports.holds.keepPlan(hold.operation, plan);
        const targets = new Map(movesOf(plan).map(({ partition, target }) => [partition, target]));
        if (targets.size > 0) await ports.admin.setOffsets(group, topic, targets);
        await ports.holds.release(hold.operation);
        onStep?.("the workers join again and read their input once more, without writing anything");
      }
    } catch (error) {
      // Nothing was deleted, so the workers may join again.
      if (!isTouched) await ports.holds.end(hold.operation);
      await ports.ended(hold.operation, request, "failed", { problem: (error as Error).message, plan });
      throw error;
    }
    await follow(ports, plan!);
    const report = {
      operation: hold.operation,
      keys,
      events: movesOf(plan!).reduce((sum, { committed, low }) => sum + committed - low, 0),
      seconds: (clock.now() - startedAt) / 1_000,
    };
    await ports.ended(hold.operation, request, "succeeded", { ...report, plan });
    await ports.holds.end(hold.operation);
    return report;
  });
