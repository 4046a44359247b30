// The tables about groups that go back: who holds a group and with which offsets, what workers
// host, and which revision of a stage decided what (law R12).
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  HeldElsewhere,
  heldAmong,
  hostings,
  openHolds,
  openReplayOf,
  recordHosting,
} from "../../modules/log/groups/group-holds.ts";
import { recordRevisions, revisionsInForce } from "../../modules/log/groups/stage-revisions.ts";
import type { Holds } from "../../modules/log/rewind/hold.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let holds: Holds;
beforeAll(async () => {
  database = await freshDatabase();
  holds = openHolds(database.pool());
});
afterAll(() => database.drop());

const plan = { topic: "t", to: "-2h", partitions: [{ partition: 0, committed: 90, target: 10, low: 0 }] };
const taken = async (group: string): Promise<string> => {
  const operation = `op_${group}`;
  await holds.take({ group, operation, kind: "rewind", actor: "ada", reason: "a test" });
  return operation;
};

describe("a hold", () => {
  test("keeps workers out until it is released, and stands until it is ended", async () => {
    const operation = await taken("a");
    expect(await heldAmong(database.pool(), ["a", "b"])).toEqual(new Map([["a", "op_a (rewind, ada)"]]));
    expect(await holds.of("a")).toMatchObject({
      group: "a",
      operation,
      kind: "rewind",
      reason: "a test",
      plan: null,
      releasedAt: null,
    });
    await holds.keepPlan(operation, plan);
    await holds.release(operation);
    expect(await heldAmong(database.pool(), ["a"])).toEqual(new Map());
    expect((await holds.of("a"))?.plan).toEqual(plan);
    expect((await holds.of("a"))?.releasedAt).toBeGreaterThan(0);
    await holds.end(operation);
    expect(await holds.of("a")).toBeNull();
  });

  test("is one a group, and going on with one that was released by hand is refused", async () => {
    const operation = await taken("c");
    await expect(taken("c")).rejects.toThrow(/duplicate key/);
    await holds.end(operation);
    await expect(holds.release(operation)).rejects.toThrow("the hold of op_c is gone: the group was released");
    await expect(holds.keepPlan(operation, plan)).rejects.toThrow("is gone");
  });

  test("is worked on by one command at a time", async () => {
    await holds.alone("d", async () => {
      await expect(holds.alone("d", async () => "twice")).rejects.toThrow(HeldElsewhere);
      expect(await holds.alone("e", async () => "another group")).toBe("another group");
    });
    expect(await holds.alone("d", async () => "again")).toBe("again");
  });
});

test("what a group hosts is what was recorded last", async () => {
  const hosting = { group: "tributary.x", topic: "t", nodes: ["x", "y"], instance: "one" };
  await recordHosting(database.pool(), hosting);
  await recordHosting(database.pool(), { ...hosting, nodes: ["x"] });
  expect(await hostings(database.pool())).toMatchObject([{ group: "tributary.x", topic: "t", nodes: ["x"] }]);
});

test("a replay that was not asked for blocks nothing", async () => {
  expect(await openReplayOf(database.pool(), ["analytics"])).toBeNull();
});

describe("a revision", () => {
  const record = (revision: number, partition: number, offset: number, topic = "in", stage = "walk") =>
    recordRevisions(database.pool(), [{ name: stage, revision }], {
      group: "g",
      topic,
      partition,
      offset,
      instance: "one",
    });
  const inForce = async (stage = "walk") =>
    (await revisionsInForce(database.pool(), [stage])).map(
      ({ topic, partition, revision, began }) => `${topic}/${partition} ${revision}@${began}`,
    );

  test("that never followed another one decided everything; the next one begins where it was met", async () => {
    await record(1, 0, 500);
    await record(1, 0, 700);
    await record(1, 1, 9);
    expect(await inForce()).toEqual(["in/0 1@0", "in/1 1@0"]);
    await record(2, 0, 800);
    expect(await inForce()).toEqual(["in/0 2@800", "in/1 1@0"]);
  });

  test("follows a partition from a worker of one version to one of the other, and back", async () => {
    await record(1, 0, 820);
    await record(2, 0, 840);
    expect(await inForce()).toEqual(["in/0 2@840", "in/1 1@0"]);
    const { rows } = await database.adminPool.query(
      "select revision, began::int from stage_revisions where stage = 'walk' and partition = 0 order by revision_id",
    );
    expect(rows.map(({ revision, began }) => `${revision}@${began}`)).toEqual(["1@0", "2@800", "1@820", "2@840"]);
  });

  test("of a stage that is hosted elsewhere begins there where it was met, once there has been another", async () => {
    await record(2, 3, 40, "between");
    expect(await inForce()).toContain("between/3 2@40");
    await record(5, 3, 40, "between", "fresh");
    expect(await inForce("fresh")).toEqual(["between/3 5@0"]);
  });

  test("does not begin inside of what a rewind still reads again", async () => {
    await holds.take({ group: "g", operation: "op_g", kind: "rewind", actor: "ada", reason: null });
    await holds.keepPlan("op_g", {
      topic: "in",
      to: "earliest",
      partitions: [{ partition: 1, committed: 90, target: 0, low: 0 }],
    });
    await holds.release("op_g");
    await expect(record(2, 1, 50)).rejects.toThrow(
      /walk has revision 2 now, and in\/1 still reads again up to 90 .*op_g.*let the former version catch up first/,
    );
    expect(await inForce()).toContain("in/1 1@0");
    await record(2, 1, 90);
    expect(await inForce()).toContain("in/1 2@90");
    await holds.end("op_g");
  });
});
