// The steps of a relearn against a broker in this process: a failure is recorded and leaves no
// group on hold, and stages of one group are not confused.
import { expect, test } from "vitest";
import type { Hold } from "../../modules/log/rewind/hold.ts";
import { type RelearnPorts, type RelearnRequest, relearnStage } from "../../modules/log/rewind/relearn.ts";
import { RewindRefused } from "../../modules/log/rewind/rewind.ts";

/** A group whose workers leave when it is held, and learn again as soon as it is not. */
const world = () => {
  const holds = new Map<string, Hold>();
  const audit: string[] = [];
  const emptied: string[] = [];
  const committed = new Map([[0, 80]]);
  let ms = 0;
  let stays = false;
  const pass = (pause: number) => {
    ms += pause;
  };
  const find = (operation: string) => [...holds.values()].find((hold) => hold.operation === operation)!;
  const put = (operation: string, change: Partial<Hold>) =>
    void holds.set(find(operation).group, { ...find(operation), ...change });
  const ports = (stage: string): RelearnPorts => ({
    clock: { now: () => ms, random: () => 0.5, sleep: async (pause) => pass(pause) },
    holds: {
      alone: (_, work) => work(),
      of: async (group) => holds.get(group) ?? null,
      all: async () => [...holds.values()],
      take: async (hold) => void holds.set(hold.group, { plan: null, ...hold, since: ms, releasedAt: null }),
      keepPlan: async (operation, plan) => put(operation, { plan }),
      release: async (operation) => put(operation, { releasedAt: ms }),
      end: async (operation) => void holds.delete(find(operation).group),
    },
    forbidden: async () => null,
    admin: {
      watermarks: async () => [{ partition: 0, low: 0, high: 80 }],
      committed: async () => new Map(committed),
      offsetsAt: async () => new Map(),
      setOffsets: async (_, __, offsets) =>
        void [...offsets].map(([partition, offset]) => committed.set(partition, offset)),
      describeGroups: async ([group]) => [
        {
          group: group!,
          state: stays ? "Stable" : "Empty",
          members: stays ? [{ memberId: "m", clientId: "worker", host: "/h" }] : [],
        },
      ],
    },
    marks: async () => new Map([[0, 80]]),
    forget: async () => emptied.push(stage),
    begin: async () => {
      audit.push(`op_${audit.length} started`);
      return `op_${audit.length - 1}`;
    },
    ended: async (operation, _, phase) => void audit.push(`${operation} ${phase}`),
  });
  return { ports, holds, audit, emptied, committed, stay: (does: boolean) => (stays = does) };
};
const request = (stage: string): RelearnRequest => ({ stage, group: "g", topic: "t", actor: "me" });
const away = async () => {
  throw new Error("redis is away");
};

test("a relearn empties the memory, goes back by one, and leaves no hold", async () => {
  const { ports, holds, audit, emptied, committed } = world();
  expect(await relearnStage(ports("enrich"), request("enrich"))).toMatchObject({ operation: "op_0", events: 80 });
  expect([emptied, committed.get(0), holds.size, audit]).toEqual([
    ["enrich"],
    79,
    0,
    ["op_0 started", "op_0 succeeded"],
  ]);
});

test("a group that is not left is given back, and the failure is on record", async () => {
  const { ports, holds, audit, emptied, stay } = world();
  stay(true);
  await expect(relearnStage(ports("enrich"), request("enrich"))).rejects.toThrow("g is still Stable");
  expect([holds.size, audit, emptied]).toEqual([0, ["op_0 started", "op_0 failed"], []]);
});

test(
  "once the memory may be emptied the group stays held, and the same command goes on with the same " + "operation",
  async () => {
    const { ports, holds, audit, stay } = world();
    await expect(relearnStage({ ...ports("enrich"), forget: away }, request("enrich"))).rejects.toThrow(
      "redis is away",
    );
    expect(holds.get("g")).toMatchObject({ operation: "op_0", releasedAt: null });
    stay(true);
    await expect(relearnStage(ports("enrich"), request("enrich"))).rejects.toThrow("g is still Stable");
    expect(holds.get("g"), "an earlier run may have emptied it").toMatchObject({ operation: "op_0", releasedAt: null });
    stay(false);
    await relearnStage(ports("enrich"), request("enrich"));
    expect([holds.size, audit]).toEqual([0, ["op_0 started", "op_0 failed", "op_0 failed", "op_0 succeeded"]]);
  },
);

test("while one stage of a group is relearnt another one is refused, before and after its plan is kept", async () => {
  const { ports, audit, emptied } = world();
  const other = () => relearnStage(ports("attribute"), request("attribute"));
  await expect(relearnStage({ ...ports("enrich"), forget: away }, request("enrich"))).rejects.toThrow("redis is away");
  await expect(other()).rejects.toThrow(RewindRefused);
  await expect(relearnStage({ ...ports("enrich"), marks: away }, request("enrich"))).rejects.toThrow("redis is away");
  await expect(other()).rejects.toThrow("another relearn of g is open: op_0 (relearn enrich); run that again");
  expect(audit.filter((line) => line.endsWith("succeeded"))).toEqual([]);
  await relearnStage(ports("enrich"), request("enrich"));
  await other();
  expect(emptied).toEqual(["enrich", "attribute"]);
});
