// The only legal move forward: a record that stops its reader becomes a dead letter, and the group
// continues after it. If the command is killed at any step, the same command continues.
import { Redis } from "ioredis";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { type Admin, openKafka } from "../../infra/kafka/kafka.ts";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { redisMemory } from "../../infra/redis/fast-memory.ts";
import { failureOf, letterSources } from "../../modules/log/dead-letters/failure.ts";
import { indexFailures } from "../../modules/log/dead-letters/letter.ts";
import { type AsidePorts, planAside, setAside } from "../../modules/log/dead-letters/set-aside.ts";
import { openHolds, recordHosting } from "../../modules/log/groups/group-holds.ts";
import { releaseGroup } from "../../modules/log/rewind/rewind-ports.ts";
import type { Operation } from "../../schemas/generated.ts";
import { topicSettings, topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { claim, recorded } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const prefix = `aside${Date.now()}.`;
const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "aside", topicPrefix: prefix });
const wire = inMemoryWire([...letterSources, topics.operations]);
const GROUP = "tributary.settle";
let database: FreshDatabase;
let pool: pg.Pool;
let admin: Admin;
let redis: Redis;
const producer = kafka.producer();
let place: { readonly topic: string; readonly partition: number; readonly offset: number };

beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 3 });
  admin = await kafka.admin();
  redis = new Redis(env.REDIS_URL!);
  const used = ["claims", "events.raw", "operations", "clicks.dlq", "pixel.dlq", "s2s.dlq"];
  await admin.apply(topicSettings.filter(({ name }) => used.includes(name)));
  await recordHosting(pool, { group: GROUP, topic: "claims", nodes: ["settle"], instance: "test" });
  const value = Buffer.from(wire.encode(topics.claims, recorded(topics.claims, claim()), null));
  // All of one order, and so in one partition.
  await producer.send(Array.from({ length: 20 }, () => ({ topic: "claims", key: "7:o:o1", value })));
  const { partition } = (await admin.watermarks("claims")).find(({ high }) => high > 0)!;
  place = { topic: "claims", partition, offset: -1 };
});
afterAll(async () => {
  await admin.deleteTopics(await admin.topics());
  await Promise.all([producer.close(), admin.close(), redis.quit()]);
  await database.drop();
});

const ports = (over: Partial<AsidePorts> = {}): AsidePorts => ({
  pool,
  kafka,
  admin,
  audit: { wire, produce: producer.send },
  topology: pipeline,
  wire,
  produce: producer.send,
  memories: { durable: postgresMemory(pool), fast: redisMemory(redis, `${prefix}memory`) },
  ...over,
});
const request = () => ({ stage: "settle", place, actor: "me@cli", reason: "stops at a value of 0" });
const markOf = async () =>
  (
    await ports().memories.durable.load({
      stage: "settle",
      keys: [],
      eventIds: [],
      topic: "claims",
      partition: place.partition,
    })
  ).mark;
const remember = (mark: number) =>
  ports().memories.durable.remember([
    {
      stage: "settle",
      topic: "claims",
      partition: place.partition,
      mark,
      changes: [],
      met: [],
      outcomes: [],
      forgets: [],
    },
  ]);
const committed = async () => (await admin.committed(GROUP, "claims")).get(place.partition);
const lettersAt = async () => {
  const found: string[] = [];
  const at = { topic: "s2s.dlq", partition: 0, offset: 0 };
  await kafka.replay({
    topics: ["pixel.dlq", "s2s.dlq"],
    onBatch: async ({ messages }) => {
      const failures = await Promise.all(messages.map((message) => failureOf(wire, message, at, 0)));
      found.push(
        ...indexFailures(
          { letters: [], failures: new Set() },
          failures.filter(({ source }) => source.offset === place.offset),
          () => 0,
        ).letters.map(({ letter_id, state, code }) => `${letter_id} ${state} ${code}`),
      );
    },
  });
  return found;
};

/** The audit of an operation. */
const saidOf = async (operation: string) => {
  const said: Operation[] = [];
  await kafka.replay({
    topics: ["operations"],
    onBatch: ({ messages }) =>
      void said.push(
        ...messages
          .map(({ value }) => wire.decode(topics.operations, value, place).data)
          .filter(({ operation_id }) => operation_id === operation),
      ),
  });
  return said;
};

/** Every test has its own record, at which the group stands with its memory. */
beforeEach(async () => {
  place = { ...place, offset: place.offset + 2 };
  await admin.setOffsets(GROUP, "claims", new Map([[place.partition, place.offset]]));
  await remember(place.offset);
});

test(
  "the record lies in the dead letters, parked; memory and offset stand behind it, and nothing is " + "held",
  async () => {
    const { event, hosting, to } = await planAside(ports(), request());
    expect([event?.id, hosting.group, to]).toEqual([claim().attributed.event.event_id, GROUP, "pixel.dlq"]);
    const done = await setAside(ports(), request());
    expect(await committed()).toBe(place.offset + 1);
    expect(await markOf()).toBe(place.offset + 1);
    expect(await openHolds(pool).all()).toEqual([]);
    expect(await lettersAt()).toEqual([expect.stringMatching(/^dl_[0-9a-f]{32} parked set_aside$/)]);
    expect(
      (await saidOf(done.operation)).map(({ kind, phase, actor, reason }) => `${kind} ${phase} ${actor} ${reason}`),
    ).toEqual(["set_aside started me@cli stops at a value of 0", "set_aside succeeded me@cli stops at a value of 0"]);
  },
);

test("only the record at which the group stands, of the topic that it reads, and only one that is there", async () => {
  for (const [other, why] of [
    [{ ...place, offset: place.offset + 1 }, `stands at claims/${place.partition}@${place.offset}`],
    [{ ...place, offset: place.offset - 1 }, "stands at"],
    [{ ...place, topic: "events.raw" }, "reads claims and not events.raw"],
    [{ ...place, partition: 99 }, "has no partition 99"],
  ] as const)
    await expect(setAside(ports(), { ...request(), place: other })).rejects.toThrow(why);
  await admin.setOffsets(GROUP, "claims", new Map([[place.partition, 20]]));
  await expect(setAside(ports(), { ...request(), place: { ...place, offset: 20 } })).rejects.toThrow(
    "the log holds no record",
  );
  expect(await openHolds(pool).all()).toEqual([]);
  expect(await lettersAt()).toEqual([]);
});

test("whichever step it dies at, the same command goes on, and the letter is one", async () => {
  const killed = async () => {
    throw new Error("killed");
  };
  const memories = { ...ports().memories, durable: { ...ports().memories.durable, remember: killed } };
  const endOnly: Admin["committed"] = async (group, topic) => {
    const now = await admin.committed(group, topic);
    if (now.get(place.partition) === place.offset + 1) throw new Error("killed");
    return now;
  };
  for (const over of [
    { produce: killed },
    { memories },
    { admin: { ...admin, setOffsets: killed } },
    { admin: { ...admin, committed: endOnly } },
  ]) {
    await expect(setAside(ports(over as Partial<AsidePorts>), request())).rejects.toThrow("killed");
    expect((await openHolds(pool).of(GROUP))?.kind, "the group stays left").toBe("set_aside");
  }
  expect(await committed()).toBe(place.offset + 1);
  await setAside(ports(), request());
  expect([await committed(), await markOf()]).toEqual([place.offset + 1, place.offset + 1]);
  expect(await openHolds(pool).all()).toEqual([]);
  expect(new Set(await lettersAt()).size).toBe(1);
});

test("of one that was ended only the same record goes on, and giving it up is on record", async () => {
  const killed = async () => {
    throw new Error("killed");
  };
  await expect(setAside(ports({ produce: killed }), request())).rejects.toThrow("killed");
  const { operation } = (await openHolds(pool).of(GROUP))!;
  // The position that the group would have if the record before had been set aside.
  const before = { ...request(), place: { ...place, offset: place.offset - 1 } };
  await expect(setAside(ports(), before)).rejects.toThrow(
    `which sets claims/${place.partition}@${place.offset} aside; run that again`,
  );
  expect((await openHolds(pool).of(GROUP))?.operation).toBe(operation);
  await releaseGroup(ports(), GROUP, "ada@cli");
  expect(await openHolds(pool).all()).toEqual([]);
  expect((await saidOf(operation)).at(-1)).toMatchObject({
    phase: "failed",
    target: GROUP,
    detail: '{"released_by":"ada@cli"}',
  });
  await expect(releaseGroup(ports(), GROUP, "ada@cli")).rejects.toThrow(`${GROUP} is not held; held groups: none`);
});

test("lost memory goes on saying that it is lost", async () => {
  await database.adminPool.query('update memory_mark set "offset" = 0');
  await setAside(ports(), request());
  expect(await markOf()).toBe(0);
});
