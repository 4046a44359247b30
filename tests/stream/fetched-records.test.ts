// Our reading of a fetch equals the client's reading, and batches that we do not read are left to
// the client.
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type FetchedRecord, readRecordBatch } from "../../infra/kafka/client/fetched-records.ts";
import { correctedClient } from "../../infra/kafka/client/kafkajs-corrected.ts";
import type { ClientBatch } from "../../infra/kafka/client/types.ts";
import { messagesOf } from "../../infra/kafka/fetch-settings.ts";

const inside = createRequire(import.meta.url);
const Decoder = inside("kafkajs/src/protocol/decoder.js") as new (bytes: Buffer) => { offset: number };
const theirs = inside("kafkajs/src/protocol/recordBatch/v0/decoder.js") as (decoder: object) => Promise<object>;
const { RecordBatch } = inside("kafkajs/src/protocol/recordBatch/v0/index.js") as {
  RecordBatch: (given: object) => Promise<{ buffer: Buffer }>;
};
const recordOf = inside("kafkajs/src/protocol/recordBatch/record/v0/index.js") as (given: object) => object;

/** A record as the client reads it. */
interface Theirs {
  readonly offset: string;
  readonly isControlRecord: boolean;
}
type BatchOf = new (
  topic: string,
  asked: string,
  fetched: { partition: number; highWatermark: string; abortedTransactions: object[]; messages: readonly object[] },
) => ClientBatch["batch"] & { readonly messagesWithinOffset: readonly object[] };
/** The client's own class, and the class that replaces it. */
const TheirBatch = inside("kafkajs/src/consumer/batch.js") as BatchOf;
correctedClient();
const OurBatch = inside("kafkajs/src/consumer/batch.js") as BatchOf;
const plain = (records: readonly FetchedRecord[]) => records.map((record) => ({ ...record }));

const bytes = fc.oneof(
  { weight: 19, arbitrary: fc.uint8Array({ maxLength: 90 }).map((array) => Buffer.from(array)) },
  { weight: 1, arbitrary: fc.integer({ min: 8_000, max: 20_000 }).map((length) => Buffer.alloc(length, "x")) },
);
const batches = fc.record({
  firstOffset: fc.maxSafeNat().map((offset) => Math.floor(offset / 4)),
  firstTimestamp: fc.nat(2 ** 31).map((seconds) => seconds * 1_000),
  isAppendTime: fc.boolean(),
  records: fc.array(
    fc.record({
      timestampDelta: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
      key: fc.option(bytes),
      value: fc.option(bytes),
      headers: fc.dictionary(
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((name) => name !== "__proto__"),
        fc.oneof(bytes, fc.array(bytes, { minLength: 2, maxLength: 3 })),
        { maxKeys: 3 },
      ),
    }),
    { minLength: 1, maxLength: 12 },
  ),
});
type Given = typeof batches extends fc.Arbitrary<infer T> ? T : never;

const written = async ({ firstOffset, firstTimestamp, isAppendTime, records }: Given): Promise<Buffer> => {
  const encoder = await RecordBatch({
    firstOffset,
    firstTimestamp,
    maxTimestamp: firstTimestamp + 5_000,
    lastOffsetDelta: records.length - 1,
    producerId: -1,
    producerEpoch: -1,
    records: records.map((record, offsetDelta) => recordOf({ ...record, offsetDelta })),
  });
  // An attribute of the batch says whose time the records carry.
  if (isAppendTime) encoder.buffer.writeInt16BE(encoder.buffer.readInt16BE(21) | 0x08, 21);
  return Buffer.from(encoder.buffer);
};

test("it equals the client's own reading of any batch, wherever it stands", async () => {
  await fc.assert(
    fc.asyncProperty(batches, fc.nat(50), async (given, before) => {
      const batch = await written(given);
      const decoder = new Decoder(Buffer.concat([Buffer.alloc(before), batch, Buffer.alloc(7)]));
      decoder.offset = before;
      const ours = readRecordBatch(Buffer.concat([Buffer.alloc(before), batch, Buffer.alloc(7)]), before);
      const expected = (await theirs(decoder)) as { records: Theirs[]; firstOffset: string };
      expect(ours?.end).toBe(decoder.offset);
      expect(ours?.batch.firstOffset).toBe(expected.firstOffset);
      const messages = messagesOf({ messages: expected.records } as unknown as ClientBatch["batch"]);
      expect(isDeepStrictEqual(plain(ours!.batch.records), messages)).toBe(true);
      // The client has nothing left to convert.
      expect(messagesOf({ messages: ours!.batch.records } as unknown as ClientBatch["batch"])).toEqual(
        ours!.batch.records,
      );
    }),
    { numRuns: 60 },
  );
});

test("a fetch says the same of its offsets as the client's own, wherever in it the reader begins", async () => {
  await fc.assert(
    fc.asyncProperty(batches, fc.integer({ min: -3, max: 14 }), fc.boolean(), async (given, ahead, isMixed) => {
      const bytes = await written(given);
      const expected = ((await theirs(new Decoder(bytes))) as { records: Theirs[] }).records;
      const ours = readRecordBatch(bytes, 0)!.batch.records;
      const asked = String(Math.max(0, given.firstOffset + ahead));
      const fetched = { partition: 3, highWatermark: String(given.firstOffset + 20), abortedTransactions: [] };
      const one = new TheirBatch("t", asked, { ...fetched, messages: expected });
      // A partition may hold batches that we read and batches that the client reads.
      const messages = isMixed ? [...ours.slice(0, 1), ...expected.slice(1)] : ours;
      const other = new OurBatch("t", asked, { ...fetched, messages });
      expect(messagesOf(other).map((message) => ({ ...message }))).toEqual(messagesOf(one));
      expect(other.messagesWithinOffset).toHaveLength(one.messagesWithinOffset.length);
      for (const ask of ["isEmpty", "firstOffset", "lastOffset", "offsetLag", "offsetLagLow"] as const)
        expect([ask, other[ask]()]).toEqual([ask, one[ask]()]);
      expect((other as any).isEmptyDueToLogCompactedMessages()).toBe((one as any).isEmptyDueToLogCompactedMessages());
    }),
    { numRuns: 100 },
  );
});

test("a batch that is cut short, compressed or of a transaction is left to the client", async () => {
  const batch = await written({
    firstOffset: 5,
    firstTimestamp: 1_000,
    isAppendTime: false,
    records: [{ timestampDelta: 0, key: null, value: Buffer.from("v"), headers: {} }],
  });
  expect(readRecordBatch(batch, 0)?.batch.records).toHaveLength(1);
  for (let length = 0; length < batch.length; length++)
    expect(readRecordBatch(batch.subarray(0, length), 0)).toBeNull();
  for (const attributes of [1, 2, 3, 4, 0x10, 0x20]) {
    const marked = Buffer.from(batch);
    marked.writeInt16BE(attributes, 21);
    expect(readRecordBatch(marked, 0)).toBeNull();
  }
});
