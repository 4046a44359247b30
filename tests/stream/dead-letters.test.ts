// A dead letter keeps the whole message and says where, why and how often it failed.
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { chain } from "../../stream/chain.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import { runner } from "../../stream/runner.ts";
import { pipeline } from "../../topology.ts";

const letter = {
  to: "pixel.dlq",
  stage: "enrich",
  code: "unreadable_body",
  message: "cut short",
  position: { topic: "events.raw", partition: 3, offset: 77 },
  key: Buffer.from("7:d1"),
  value: Buffer.from([1, 2, 3]),
  headers: { traceparent: Buffer.from("00-ab") },
};
const noon = Date.UTC(2026, 5, 15, 18);

test("key, value and headers stay as they came, beside the names that Kafka Connect uses", () => {
  expect(deadLetterOf(letter, noon)).toEqual({
    topic: "pixel.dlq",
    key: letter.key,
    value: letter.value,
    headers: {
      traceparent: Buffer.from("00-ab"),
      "__connect.errors.topic": "events.raw",
      "__connect.errors.partition": "3",
      "__connect.errors.offset": "77",
      "__connect.errors.exception.message": "cut short",
      "tributary-kind": "pixel",
      "tributary-stage": "enrich",
      "tributary-code": "unreadable_body",
      "tributary-attempt": "1",
      "tributary-first-failed-at": "2026-06-15T18:00:00.000Z",
    },
  });
});

test("a letter that failed before counts on and keeps the time of its first failure", () => {
  const first = deadLetterOf(letter, noon).headers!;
  const second = deadLetterOf({ ...letter, headers: { ...first }, code: "bad_amount" }, noon + 60_000);
  expect(second.headers).toMatchObject({
    "tributary-attempt": "2",
    "tributary-first-failed-at": "2026-06-15T18:00:00.000Z",
    "tributary-code": "bad_amount",
    traceparent: Buffer.from("00-ab"),
  });
});

test("a header that is no number begins the count again", () => {
  const { headers } = deadLetterOf({ ...letter, headers: { "tributary-attempt": "many" } }, noon);
  expect(headers).toMatchObject({ "tributary-attempt": "1" });
});

test("a record without key and value can be kept too", () => {
  expect(deadLetterOf({ ...letter, key: null, value: null }, noon)).toMatchObject({ key: null, value: null });
});

test("a dead letter that cannot be written holds the offset of its stage, whatever else was written", async () => {
  const settle = chain(pipeline, ["settle"]);
  const committed: number[] = [];
  const refusing = runner(settle, {
    wire: inMemoryWire([settle.reads, ...Object.values(settle.hosted[0]!.stage.to)]),
    memories: { fast: inMemory("fast"), durable: inMemory("durable") },
    read: () => Promise.reject(new Error("nothing is looked up")),
    produce: async (messages) => {
      if (messages.some(({ topic }) => topic.endsWith(".dlq"))) throw new Error("the log refuses it");
    },
    deadLetters: pipeline.deadLetters,
    deadLetter: (refused) => deadLetterOf(refused, noon),
    retry: (_, one) => one(),
    count: () => undefined,
    stops: async () => 1,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  const messages = [{ offset: 0, key: null, value: Buffer.from("garbage"), headers: {}, appendedAt: 0 }];
  const control = {
    commit: async (offset: number) => void committed.push(offset),
    heartbeat: async () => undefined,
    isCurrent: () => true,
    seek: () => undefined,
    readOn: () => undefined,
    rest: () => undefined,
  };
  await expect(refusing({ topic: settle.reads.name, partition: 0, messages }, control)).rejects.toThrow(
    "the log refuses it",
  );
  expect(committed).toEqual([]);
});
