// Every client must put a key into the same partition, else the events of a key lose their order.
import { createRequire } from "node:module";
import fc from "fast-check";
import kafkajs from "kafkajs";
import { expect, test } from "vitest";
import { murmur2, partitionOf } from "../../stream/partitioner.ts";

const theirs = createRequire(import.meta.url)("kafkajs/src/producer/partitioners/default/murmur2.js") as (
  key: Buffer,
) => number;

test("murmur2 equals that of kafkajs on any key", () =>
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      expect(murmur2(bytes)).toBe(theirs(Buffer.from(bytes)));
    }),
    { numRuns: 5_000 },
  ));

// org.apache.kafka.common.utils.UtilsTest.testMurmur2
test.each([
  ["21", -973932308],
  ["foobar", -790332482],
  ["a-little-bit-long-string", -985981536],
  ["a-little-bit-longer-string", -1486304829],
  ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971],
  ["abc", 479470107],
])("murmur2 of %s is what Java's own test says", (key, hash) => expect(murmur2(Buffer.from(key))).toBe(hash));

test("the partition equals that of the client's default", () => {
  const byDefault = kafkajs.Partitioners.DefaultPartitioner();
  const partitionMetadata = Array.from({ length: 12 }, (_, partitionId) => ({ partitionId, leader: 1 })) as never[];
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 60 }), (key) => {
      expect(partitionOf(Buffer.from(key), 12)).toBe(
        byDefault({ topic: "t", partitionMetadata, message: { key, value: null } }),
      );
    }),
  );
});
