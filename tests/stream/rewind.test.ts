// The steps of a rewind against a broker in this process: after a death at any step the same
// command finishes the work, and no partition moves forward.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Clock } from "../../infra/runtime/timing/retry.ts";
import type { Hold, Holds } from "../../modules/log/rewind/hold.ts";
import { type RewindPorts, RewindRefused, type RewindRequest, rewindGroup } from "../../modules/log/rewind/rewind.ts";

class Killed extends Error {}

/**
 * A group of two partitions with a worker that leaves when the group is held, and otherwise reads
 * on.
 */
const world = (
  settings: { readonly committed?: readonly number[]; readonly high?: readonly number[]; readonly low?: number } = {},
) => {
  const committed = new Map((settings.committed ?? [80, 60]).map((offset, partition) => [partition, offset]));
  const high = settings.high ?? [100, 60];
  const low = settings.low ?? 0;
  const holds = new Map<string, Hold>();
  const audit: string[] = [];
  const effects: string[] = [];
  let members = 1;
  let ms = 0;
  let operations = 0;
  const isHeld = () => [...holds.values()].some(({ releasedAt }) => releasedAt === null);
  /** The worker's actions while the command waits. */
  const work = () => {
    if (isHeld()) members = 0;
    else {
      members = 1;
      for (const [partition, offset] of committed) committed.set(partition, Math.min(high[partition]!, offset + 7));
    }
  };
  const clock: Clock = {
    now: () => ms,
    random: () => 0.5,
    sleep: async (pause) => {
      ms += pause;
      work();
    },
  };
  const find = (operation: string): Hold => {
    const found = [...holds.values()].find((one) => one.operation === operation);
    if (found === undefined) throw new Error(`the hold of ${operation} is gone`);
    return found;
  };
  const put = (operation: string, change: Partial<Hold>) => {
    const found = find(operation);
    holds.set(found.group, { ...found, ...change });
  };
  const kept: Holds = {
    alone: (_, whole) => whole(),
    of: async (group) => holds.get(group) ?? null,
    all: async () => [...holds.values()],
    take: async (hold) => void holds.set(hold.group, { plan: null, ...hold, since: ms, releasedAt: null }),
    keepPlan: async (operation, plan) => put(operation, { plan }),
    release: async (operation) => put(operation, { releasedAt: ms }),
    end: async (operation) =>
      void holds.delete([...holds.values()].find((one) => one.operation === operation)?.group ?? ""),
  };
  const ports: RewindPorts = {
    clock,
    holds: kept,
    admin: {
      watermarks: async () => high.map((end, partition) => ({ partition, low, high: end })),
      committed: async () => new Map(committed),
      // No record is newer than the time; this answer of a broker would skip records that a lagging
      // group has not read.
      offsetsAt: async (_, at) => new Map(high.map((end, partition) => [partition, Math.min(end, at)])),
      setOffsets: async (_, __, offsets) => {
        if (members > 0) throw new Error("UNKNOWN_MEMBER_ID");
        for (const [partition, offset] of offsets) committed.set(partition, offset);
      },
      describeGroups: async ([group]) => [
        {
          group: group!,
          state: members > 0 ? "Stable" : "Empty",
          members: members > 0 ? [{ memberId: "m", clientId: "worker", host: "/h" }] : [],
        },
      ],
    },
    appendedAt: async (_, offsets) => new Map([...offsets].map(([partition]) => [partition, 50])),
    forbidden: async () => null,
    begin: async () => {
      operations += 1;
      audit.push(`op_${operations} started`);
      return `op_${operations}`;
    },
    ended: async (operation, _, phase) => void audit.push(`${operation} ${phase}`),
  };
  /** The process dies at the effect with number `death`, before or after it happens. */
  const dyingAt = (death: number): RewindPorts => {
    let count = 0;
    let isDead = false;
    const die = (where: string): never => {
      isDead = true;
      throw new Killed(where);
    };
    const watched =
      <Args extends readonly unknown[], T>(name: string, effect: (...args: Args) => Promise<T>) =>
      async (...args: Args): Promise<T> => {
        // A dead process has no effects, whatever its code does with the error.
        if (isDead || ++count === death) die(`before ${name}`);
        const answer = await effect(...args);
        effects.push(name);
        if (++count === death) die(`after ${name}`);
        return answer;
      };
    return {
      ...ports,
      admin: {
        ...ports.admin,
        setOffsets: watched("set", ports.admin.setOffsets),
        committed: watched("committed", ports.admin.committed),
      },
      begin: watched("begin", ports.begin),
      ended: watched("ended", ports.ended),
      holds: {
        ...kept,
        take: watched("take", kept.take),
        keepPlan: watched("keepPlan", kept.keepPlan),
        release: watched("release", kept.release),
        of: watched("of", kept.of),
        end: watched("end", kept.end),
      },
    };
  };
  return { ports, dyingAt, committed, holds, audit, effects, work, members: () => members };
};
const request = (at: number, more: Partial<RewindRequest> = {}): RewindRequest => ({
  group: "g",
  topic: "t",
  to: { kind: "time", at },
  text: `time ${at}`,
  actor: "me",
  ...more,
});

describe("a rewind", () => {
  test("goes back, is followed until it has caught up, and leaves no hold", async () => {
    const { ports, holds, audit, committed } = world();
    const report = await rewindGroup(ports, request(20));
    expect(report.partitions).toEqual([
      { partition: 0, committed: 80, target: 20, low: 0 },
      { partition: 1, committed: 60, target: 20, low: 0 },
    ]);
    expect(report.events).toBe(100);
    expect([...holds]).toEqual([]);
    expect(audit).toEqual(["op_1 started", "op_1 succeeded"]);
    expect(committed.get(0)).toBeGreaterThanOrEqual(80);
  });

  test("that is named goes on with no hold but its own, though another wants the same", async () => {
    const { ports, holds, audit } = world();
    await ports.holds.take({ group: "g", operation: "op_other", kind: "rewind", actor: "ana", reason: null });
    await expect(rewindGroup(ports, request(20, { operation: "op_own" }))).rejects.toThrow("held by op_other");
    expect([[...holds.keys()], audit]).toEqual([["g"], []]);
  });

  test("that is named and has caught up since is ended, and not begun once more", async () => {
    const { ports, holds, audit, effects, dyingAt } = world();
    const plan = { topic: "t", to: "time 20", partitions: [{ partition: 0, committed: 80, target: 20, low: 0 }] };
    await ports.holds.take({ group: "g", operation: "op_own", kind: "rewind", actor: "me", reason: null, plan });
    await ports.holds.release("op_own");
    const report = await rewindGroup(dyingAt(Number.POSITIVE_INFINITY), request(20, { operation: "op_own" }));
    expect([report.operation, report.isResumed, audit, [...holds]]).toEqual(["op_own", true, ["op_own succeeded"], []]);
    expect(effects).not.toContain("set");
  });

  test("leaves a partition alone that would go forward", async () => {
    const { ports } = world();
    const { partitions } = await rewindGroup(ports, request(70));
    expect(partitions).toEqual([
      { partition: 0, committed: 80, target: 70, low: 0 },
      { partition: 1, committed: 60, target: 60, low: 0 },
    ]);
  });

  test("is refused when no partition would go back, and nothing is touched", async () => {
    const { ports, holds, audit, members } = world();
    await expect(rewindGroup(ports, request(90))).rejects.toThrow(RewindRefused);
    expect([[...holds], audit, members()]).toEqual([[], [], 1]);
  });

  test("is refused when retention has cut the window, and done in part when that is wanted", async () => {
    const { ports, audit } = world({ low: 10 });
    await expect(rewindGroup(ports, request(5))).rejects.toThrow(
      /retention has removed a part of that window: .*--partial/,
    );
    expect(audit).toEqual([]);
    const { partitions } = await rewindGroup(ports, request(5, { isPartial: true }));
    expect(partitions.map(({ target }) => target)).toEqual([10, 10]);
  });

  test("is refused for what another revision decided", async () => {
    const { ports, audit } = world();
    await expect(rewindGroup({ ...ports, forbidden: async () => "decided by revision 1" }, request(5))).rejects.toThrow(
      "decided by revision 1",
    );
    expect(audit).toEqual([]);
  });

  test("lets the workers go on when the group does not become empty, for nothing has moved", async () => {
    const { ports, holds, audit } = world();
    const stubborn = {
      ...ports,
      admin: {
        ...ports.admin,
        describeGroups: async () => [
          { group: "g", state: "Stable", members: [{ memberId: "m", clientId: "deaf", host: "/h" }] },
        ],
      },
    };
    await expect(rewindGroup(stubborn, request(5))).rejects.toThrow(/still Stable after 45 s, with deaf/);
    expect([[...holds], audit]).toEqual([[], ["op_1 started", "op_1 failed"]]);
  });

  test("leaves the group held when it does not take its offsets", async () => {
    const { ports, holds } = world();
    const deaf = { ...ports, admin: { ...ports.admin, setOffsets: async () => undefined } };
    await expect(rewindGroup(deaf, request(5))).rejects.toThrow(
      /partitions 0, 1 of t do not take their offsets; g stays held/,
    );
    expect(holds.get("g")?.releasedAt).toBeNull();
  });

  test("refuses another one while it is open, and goes on when it is asked for again", async () => {
    const { ports, holds } = world();
    const deaf = { ...ports, admin: { ...ports.admin, setOffsets: async () => undefined } };
    await rewindGroup(deaf, request(5)).catch(() => undefined);
    await expect(rewindGroup(ports, request(9))).rejects.toThrow(/another rewind of g is open: op_1 to time 5/);
    const report = await rewindGroup(ports, request(5));
    expect([report.operation, report.isResumed, holds.size]).toEqual(["op_1", true, 0]);
  });
});

test(
  "killed at any step and run again, it moves no partition forward and ends as if nothing had " + "happened",
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 4 }),
        fc.tuple(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 60 })),
        fc.integer({ min: 0, max: 110 }),
        async (deaths, committed, at) => {
          const made = world({ committed });
          const wasCommitted = new Map(made.committed);
          const isBack = committed.some((offset, partition) => Math.min([100, 60][partition]!, at) < offset);
          for (const death of deaths) {
            const ran = rewindGroup(made.dyingAt(death), request(at));
            await ran.catch((error) => {
              if (!(error instanceof Killed) && !(error instanceof RewindRefused)) throw error;
            });
            // The group is held and nothing is read, so commits are at or below those of before.
            const hold = made.holds.get("g");
            if (hold !== undefined && hold.releasedAt === null && made.members() === 0)
              for (const [partition, offset] of made.committed)
                expect(offset).toBeLessThanOrEqual(hold.plan?.partitions[partition]?.committed ?? 100);
          }
          const end = await rewindGroup(made.ports, request(at)).catch((error) => error as Error);
          if (isBack && deaths.length === 0) expect(end).not.toBeInstanceOf(Error);
          if (end instanceof Error) expect(end).toBeInstanceOf(RewindRefused);
          expect([...made.holds]).toEqual([]);
          // Nothing is skipped: the group has passed its position of before.
          for (const [partition, offset] of made.committed)
            expect(offset).toBeGreaterThanOrEqual(wasCommitted.get(partition)!);
        },
      ),
      { numRuns: 300 },
    );
  },
);
