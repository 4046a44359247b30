// Which of two orders under one id came second, on a real log and a real Postgres: memory is lost,
// and the partition of the second one is read first.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { type Admin, openKafka, wholeReader } from "../../infra/kafka/kafka.ts";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import type { Claim } from "../../schemas/generated.ts";
import { chain } from "../../stream/chain.ts";
import { deadLetterOf, letterHeaders } from "../../stream/dead-letters.ts";
import type { Recorded } from "../../stream/flow.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { runner } from "../../stream/runner.ts";
import { topicSettings, topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sale } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const kafka = openKafka({
  brokers: env.KAFKA_BROKERS!,
  clientId: "taken-ids",
  topicPrefix: `taken${Date.now()}.`,
});
const wire = inMemoryWire(Object.values(topics));
const producer = kafka.producer();
const used: readonly string[] = [topics.claims.name, topics.claimsTaken.name];
const GROUP = "tributary.settle";
let databases: readonly FreshDatabase[];
let admin: Admin;

beforeAll(async () => {
  databases = [await freshDatabase(), await freshDatabase(), await freshDatabase()];
  admin = await kafka.admin();
  await admin.apply(topicSettings.filter(({ name }) => used.includes(name)));
});
afterAll(async () => {
  await admin.deleteTopics(await admin.topics());
  await Promise.all([producer.close(), admin.close()]);
  for (const database of databases) await database.drop();
});

/** A worker of settle, which produces to the real log what it records, and keeps the rest here. */
const settling = (pool: pg.Pool) => {
  const produced: OutputMessage[] = [];
  const process = runner(chain(pipeline, ["settle"]), {
    wire,
    memories: { fast: inMemory("fast"), durable: postgresMemory(pool) },
    read: () => Promise.reject(new Error("nothing is looked up")),
    produce: async (messages) => {
      produced.push(...messages);
      const taken = messages.filter(({ topic }) => topic === topics.claimsTaken.name);
      if (taken.length > 0) await producer.send(taken);
    },
    whole: wholeReader(kafka),
    committed: (topic) => admin.committed(GROUP, topic),
    deadLetters: pipeline.deadLetters,
    deadLetter: (letter) => deadLetterOf(letter, 0),
    retry: (_, step) => step(),
    stops: async () => 1,
    count: () => undefined,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  const read = (partition: number, claim: Recorded<Claim>) =>
    process(
      {
        topic: topics.claims.name,
        partition,
        messages: [
          {
            offset: 0,
            key: Buffer.from(claim.key),
            value: Buffer.from(wire.encode(topics.claims, claim, null)),
            headers: {},
            appendedAt: 0,
          },
        ],
      },
      {
        commit: async () => undefined,
        heartbeat: async () => undefined,
        isCurrent: () => true,
        seek: () => undefined,
        readOn: () => undefined,
        rest: () => undefined,
      },
    );
  const codes = () => produced.flatMap(({ headers }) => headers?.[letterHeaders.code] ?? []);
  const conversions = () =>
    produced.filter(({ topic }) => topic === topics.conversions.name).map(({ value }) => value!.toString("hex"));
  return { read, codes, conversions };
};

const event_id = "00000000-0000-8000-8000-00000000beef";
const first = sale({ event_id, order_id: "o1" });
const second = sale({ event_id, order_id: "o2" });

test("the second order is the second one again, though its partition is read first", async () => {
  const [live, rebuilt] = databases.map((database) => settling(database.pool({ max: 2 })));
  await live!.read(0, first);
  await live!.read(3, second);
  expect(live!.codes()).toEqual(["id_conflict"]);
  expect(live!.conversions()).toHaveLength(1);

  // Another database, in which nothing is remembered.
  await rebuilt!.read(3, second);
  expect([rebuilt!.codes(), rebuilt!.conversions()]).toEqual([["id_conflict"], []]);
  await rebuilt!.read(0, first);
  expect(rebuilt!.conversions()).toEqual(live!.conversions());
  expect(rebuilt!.codes()).toEqual(["id_conflict"]);
}, 60_000);

test("an order that comes before the first one was read again waits as a dead letter", async () => {
  const value = Buffer.from(wire.encode(topics.claims, first, null));
  await producer.send([{ topic: topics.claims.name, key: first.key, value }]);
  const { partition } = (await admin.watermarks(topics.claims.name)).find(({ high }) => high > 0)!;
  await admin.setOffsets(GROUP, topics.claims.name, new Map([[partition, 1]]));
  const emptied = settling(databases[2]!.pool({ max: 2 }));
  await emptied.read((partition + 1) % topics.claims.partitions, sale({ event_id, order_id: "o3" }));
  expect([emptied.codes(), emptied.conversions()]).toEqual([["id_conflict"], []]);
}, 60_000);
