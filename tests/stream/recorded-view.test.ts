// An event that is read in place from the bytes of the log equals the decoded one, or is left to
// the decoder.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import type { AnyTopic, Position, Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { damage, damaged, plain, valuesOf } from "../support/avro-values.ts";

const all: readonly AnyTopic[] = Object.values(topics);
const wire = inMemoryWire(all);
const read: Position = { topic: "t", partition: 3, offset: 44 };
const origins = fc.option(fc.record({ topic: fc.string(), partition: fc.nat(), offset: fc.nat(2 ** 47) }), { freq: 2 });
const dataOf = (topic: AnyTopic) => valuesOf((topic.schema as any).fields.at(-1).type);
const written = (topic: AnyTopic, data: any, origin: Position | null): Buffer =>
  wire.encode(topic, { id: "", key: "", at: -5, receivedAt: 1_800_000_000_000, position: read, data }, origin);
const described = ({ id, key, at, receivedAt, position, data }: Recorded<any>) => ({
  ...{ id, key, at, receivedAt, position },
  data: plain(data.toJSON?.() ?? data),
});
/** The event, or the message of the error. */
const tried = (step: () => Recorded<any>) => {
  try {
    return described(step());
  } catch (error) {
    return String(error);
  }
};

/**
 * Endless varints: billions, negative numbers, beyond 2^53, and beyond 2^1024, where no number is
 * read.
 */
const endless = fc
  .tuple(fc.constantFrom(0x80, 0xff), fc.oneof(fc.integer({ min: 3, max: 10 }), fc.constant(150)), fc.nat(3))
  .map(([byte, length, last]) => Buffer.concat([Buffer.alloc(length, byte), Buffer.of(last)]));
/** Puts them one after the other at a place after the frame. */
const put = (value: Buffer, wanted: number, numbers: readonly Buffer[]): Buffer => {
  const at = 5 + (wanted % Math.max(1, value.length - 5));
  return Buffer.concat([value.subarray(0, at), ...numbers, value.subarray(at)]);
};

describe.each(all.map((topic) => [topic.name, topic] as const))("an event of %s", (_, topic) => {
  test("is the decoded one", () => {
    fc.assert(
      fc.property(dataOf(topic), origins, (data, origin) => {
        const value = written(topic, data, origin);
        expect(described(wire.view(topic, value, read))).toEqual(described(wire.decode(topic, value, read)));
      }),
      { numRuns: 20 },
    );
  });
  test("that was altered or cut is the decoded one, or the same error", () => {
    fc.assert(
      fc.property(dataOf(topic), origins, damage, fc.nat(), fc.array(endless), (data, origin, harm, at, numbers) => {
        const value = put(damaged(written(topic, data, origin), harm), at, numbers);
        expect(tried(() => wire.view(topic, value, read))).toEqual(tried(() => wire.decode(topic, value, read)));
      }),
      { numRuns: 40 },
    );
  });
});

const { referenceChanges } = topics;
const [change] = fc.sample(dataOf(referenceChanges), { numRuns: 1, seed: 1 });

test.each([
  ["nothing", null],
  ["no more than its schema", Buffer.of(0, 0, 0, 0, 4)],
  ["another frame", Buffer.of(1, 0, 0, 0, 4, 0, 0)],
  ["an unknown schema", Buffer.of(0, 0, 0, 9, 9, 0, 0)],
  ["one byte too many", Buffer.concat([written(referenceChanges, change, null), Buffer.of(0)])],
])("%s is refused as the decoder refuses it", (_, value) => {
  const [viewed, decoded] = [wire.view, wire.decode].map((step) => tried(() => step(referenceChanges, value, read)));
  expect(typeof viewed).toBe("string");
  expect(viewed).toBe(decoded);
});
