// What the probe of event processing reads of Postgres and Redis: how far stages remember, who
// holds a group, and which failing store explains that groups stand.
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { durableMarks } from "../../infra/postgres/durable-memory.ts";
import { redisMemory } from "../../infra/redis/fast-memory.ts";
import { marksOf } from "../../infra/redis/forget.ts";
import { openHolds, recordHosting } from "../../modules/log/groups/group-holds.ts";
import { standingPorts } from "../../modules/running/repair/standing-groups.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

const prefix = `standing-${process.pid}-${Date.now()}`;
const redis = new Redis(sharedStack().env.REDIS_URL!, { maxRetriesPerRequest: 1 });
let database: FreshDatabase;
let isRedisAway = false;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(async () => {
  redis.disconnect();
  await database.drop();
});

/** A log in which four records wait in partition 2 of each group, and none in partition 0. */
const admin = {
  describeGroups: async () => [],
  lag: async (group: string, [topic]: readonly string[]) =>
    [0, 2].map((partition) => ({
      ...{ group, topic: topic!, partition, committed: 10, low: 0 },
      ...{ high: 10 + 2 * partition, lag: 2 * partition },
    })),
};
const ports = () =>
  standingPorts({
    pool: database.pool(),
    ask: (question) => question(admin),
    marks: {
      fast: async (stage, topic) => {
        if (isRedisAway) throw new Error("Redis is away");
        return marksOf(redis, prefix, stage, topic);
      },
      durable: (stage, topic) => durableMarks(database.pool(), stage, topic),
    },
  });
const hosting = (group: string, topic: string, nodes: readonly string[]) =>
  recordHosting(database.pool(), { group, topic, nodes, instance: "one" });
const remember = (stage: string, mark: number) =>
  redisMemory(redis, prefix).remember([
    {
      ...{ stage, topic: "events.raw", partition: 2, mark, changes: [], met: [], outcomes: [], forgets: [] },
    },
  ]);

test("a place that waits has the stores that it needs, and how far each of its stages remembers", async () => {
  await hosting("tributary.enrich", "events.raw", ["enrich", "score", "attribute"]);
  await hosting("tributary.settle", "claims", ["settle"]);
  await database.adminPool.query(
    `insert into memory_mark (stage, topic, partition, "offset") values ('settle', 'claims', 2, 7)`,
  );
  await remember("enrich", 5);
  const { places } = ports();
  const known = async () => (await places()).map(({ group, needs, remembered }) => [group, needs, remembered]);
  expect(await known()).toEqual(
    expect.arrayContaining([
      ["tributary.settle", [], [7]],
      ["tributary.enrich", ["cache_store"], [5, null]],
    ]),
  );
  // Redis that does not answer makes no group seem to move.
  isRedisAway = true;
  expect(await known()).toContainEqual(["tributary.enrich", ["cache_store"], [5, null]]);
  isRedisAway = false;
  await remember("enrich", 6);
  expect(await known()).toContainEqual(["tributary.enrich", ["cache_store"], [6, null]]);
});

test("a group is held until its hold is released, though the hold stays until it has caught up", async () => {
  const holds = openHolds(database.pool());
  await holds.take({ group: "a", operation: "op_a", kind: "rewind", actor: "ada", reason: "a test" });
  expect(await ports().held()).toEqual(new Set(["a"]));
  await holds.release("op_a");
  expect(await ports().held()).toEqual(new Set());
});

test("late sales and lost rows explain no group that stands: their stores answer", async () => {
  const fails = (name: string, error: string) =>
    database.adminPool.query("update probe_states set state = 'down', last_error = $2 where name = $1", [name, error]);
  await fails("relational_store", "sales reach Postgres 1900 s late, more than 1800 s");
  await fails("analytics_store", "its rows are gone: it has 0");
  expect(await ports().failing()).toEqual(new Set());
  await fails("relational_store", "no answer within 10 s");
  await fails("analytics_store", "its tables are gone: npx tributary migrate apply");
  expect(await ports().failing()).toEqual(new Set(["relational_store", "analytics_store"]));
});
