// Our request is byte for byte the request that the client would write.
import { createRequire } from "node:module";
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { crc32c, type RecordFields, writeProduceRequest } from "../../infra/kafka/client/record-batch.ts";

const inside = createRequire(import.meta.url);
const theirRequest = inside("kafkajs/src/protocol/requests/produce/v3/request.js") as (given: object) => {
  encode: () => Promise<{ buffer: Buffer }>;
};
const theirCrc = inside("kafkajs/src/protocol/recordBatch/crc32C/index.js") as (bytes: Buffer) => number;

const noon = Date.UTC(2026, 5, 15, 18);
afterEach(() => {
  vi.useRealTimers();
});

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));
const field = fc.oneof(bytes(300), fc.string({ unit: "binary", maxLength: 80 }));
const messages: fc.Arbitrary<RecordFields[]> = fc.array(
  fc.record(
    {
      key: fc.option(field),
      value: fc.option(fc.oneof({ weight: 9, arbitrary: field }, { weight: 1, arbitrary: bytes(40_000) })),
      headers: fc.dictionary(
        fc.string({ unit: "binary", minLength: 1, maxLength: 20 }).filter((name) => !/^(\d+|__proto__)$/.test(name)),
        field,
        { maxKeys: 3 },
      ),
    },
    { requiredKeys: ["value"] },
  ),
  { minLength: 1, maxLength: 200 },
) as never;

test("it equals the client's own for any messages", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: noon });
  const topicData = fc.array(
    fc.record({
      topic: fc.string({ minLength: 1, maxLength: 30 }),
      partitions: fc.array(fc.record({ partition: fc.nat(5_000), messages }), { minLength: 1, maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 3 },
  );
  await fc.assert(
    fc.asyncProperty(topicData, async (given) => {
      const request = { acks: -1, timeout: 30_000, topicData: given };
      const theirs = await theirRequest({ ...request, transactionalId: null }).encode();
      expect(writeProduceRequest(request, noon).equals(theirs.buffer)).toBe(true);
    }),
    { numRuns: 150 },
  );
});

test("the checksum is CRC-32C", () => {
  // RFC 3720, B.4
  expect(crc32c(Buffer.alloc(32))).toBe(0x8a9136aa);
  expect(crc32c(Buffer.alloc(32, 0xff))).toBe(0x62a8ab43);
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  fc.assert(fc.property(bytes(2_000), (given) => crc32c(given) === theirCrc(given) >>> 0));
});

test("the checksum covers the given part alone", () => {
  const whole = Buffer.from("..123456789..");
  expect(crc32c(whole, 2, 11)).toBe(0xe3069283);
});
