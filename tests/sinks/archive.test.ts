// The archive holds the log byte for byte: files join without gap or overlap, whichever member
// dies, even while others store the same records.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import zstd from "@toondepauw/node-zstd";
import avro from "avsc";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { filesOf, hoursOf, pastOf, readFile } from "../../sinks/archive/archive-reads.ts";
import { seamsOf, uncoveredEnds } from "../../sinks/archive/check.ts";
import { type ArchivedRecord, openContainer, readContainer } from "../../sinks/archive/container.ts";
import { type ArchiveFile, fileKey, fileOf, HOUR_MS } from "../../sinks/archive/names.ts";
import { planRestore } from "../../sinks/archive/restore.ts";
import { deleteOldHours } from "../../sinks/archive/retention.ts";
import { withheldBy } from "../../sinks/archive/withheld-filter.ts";
import { archivedSchema, archiver } from "../../sinks/archive/write.ts";
import type { FetchedBatch } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { type InMemoryObjects, inMemoryObjects } from "../support/in-memory-objects.ts";

const START = Date.UTC(2026, 10, 21, 16, 30);
const recordOf = (offset: number, over: Partial<ArchivedRecord> = {}): ArchivedRecord => ({
  offset,
  appended_at: START + offset,
  key: Buffer.from(`3:device-${offset}`),
  value: Buffer.concat([Buffer.of(0, 0, 0, 0, 7), Buffer.from(`body ${offset}`)]),
  headers: [],
  ...over,
});
type Message = FetchedBatch["messages"][number];
const messageOf = (offset: number, over: Partial<Message> = {}): Message => {
  const { key, value } = recordOf(offset);
  return { offset, key, value, headers: {}, appendedAt: START + offset, ...over };
};
const batchOf = (messages: readonly Message[], partition = 7): FetchedBatch => ({
  topic: "events.raw",
  partition,
  messages,
  highWatermark: messages.at(-1)!.offset + 1,
});
const range = (from: number, until: number): readonly number[] =>
  Array.from({ length: until - from }, (_, n) => from + n);
const noSchema = async () => null;
const still = async () => undefined;
/**
 * Returns the offset up to which everything is stored; the batch is everything that waits in the
 * log.
 */
const keeping = (objects: Objects, schemaOf: Parameters<typeof archiver>[1] = noSchema) => {
  const { keep } = archiver(objects, schemaOf);
  return async (batch: FetchedBatch): Promise<number> => (await keep(batch, batch.highWatermark, still)).stored;
};
const writeContainer = async (topic: string, partition: number, records: readonly ArchivedRecord[]) => {
  const container = openContainer();
  await container.add(records);
  return container.close({ topic, partition, first: records[0]!.offset, last: records.at(-1)!.offset });
};
const listed = async (objects: Objects): Promise<readonly ArchiveFile[]> => {
  const files: ArchiveFile[] = [];
  for await (const file of filesOf(objects, "events.raw")) files.push(file);
  return files;
};

test("records come back byte for byte, keys and values that are missing and headers too", async () => {
  const records = [
    recordOf(12_345),
    recordOf(12_346, { key: null }),
    recordOf(12_347, { value: null }),
    recordOf(12_348, { value: randomBytes(700_000), headers: [{ name: "traceparent", value: Buffer.from("00-ab") }] }),
    recordOf(12_349, { value: Buffer.alloc(0), headers: [{ name: "empty", value: null }] }),
  ];
  const { file, contents } = await writeContainer("events.raw", 7, records);
  const read = await readContainer("k", file);
  const plain = ({ key, value, headers, ...rest }: ArchivedRecord) => ({
    ...rest,
    key: key?.toString("hex") ?? null,
    value: value?.toString("hex") ?? null,
    headers: headers.map((header) => [header.name, header.value?.toString() ?? null]),
  });
  expect(read.records.map(plain)).toEqual(records.map(plain));
  expect(read.contents).toEqual(contents);
  expect(contents).toMatchObject({ topic: "events.raw", partition: 7, first: 12_345, last: 12_349, records: 5 });
});

test("another reader of Avro files reads them: the library's own", async () => {
  const records = range(0, 5_000).map((n) => recordOf(n));
  const { file } = await writeContainer("events.raw", 7, records);
  // The reader gets the library of the codec, as every reader of Avro files does.
  const zstandard = (block: Buffer, done: (error: Error | null, bytes: Buffer) => void): void =>
    done(null, new zstd.Decoder().decodeSync(block));
  const decoder = new avro.streams.BlockDecoder({ codecs: { zstandard } } as never);
  const values: { offset: number; value: Buffer }[] = [];
  decoder.on("data", (value) => values.push(value));
  const ended = new Promise((resolve, reject) => decoder.on("end", resolve).on("error", reject));
  decoder.end(file);
  await ended;
  expect(values.map(({ offset }) => offset)).toEqual(range(0, 5_000));
  expect(values[4_999]!.value.equals(records[4_999]!.value!)).toBe(true);
});

test("files that were written with Deflate are read", async () => {
  const file = Buffer.from(readFileSync(new URL("./deflated-archive.base64", import.meta.url), "latin1"), "base64");
  expect(file.includes("deflate")).toBe(true);
  const { records, contents } = await readContainer("k", file);
  expect(records.map(({ offset, key, value }) => [offset, String(key), value!.subarray(5).toString()])).toEqual([
    [0, "3:device-0", "body 0"],
    [1, "3:device-1", "body 1"],
    [2, "3:device-2", "body 2"],
  ]);
  // The same records have the same checksum under every codec.
  expect(
    (
      await writeContainer(
        "events.raw",
        7,
        range(0, 3).map((n) => recordOf(n)),
      )
    ).contents,
  ).toEqual(contents);
});

test("a file of a codec that no version has written is reported, not guessed", async () => {
  const { file } = await writeContainer("events.raw", 7, [recordOf(0)]);
  const at = file.indexOf("zstandard");
  file.write("snappyest", at);
  await expect(readContainer("k", file)).rejects.toThrow('k is damaged: it is compressed with "snappyest"');
});

test("records that come in pieces make the contents of those that come at once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 6 }), async (cuts) => {
      const all = range(0, 60).map((n) => recordOf(n, { value: Buffer.alloc(n % 7 === 0 ? 90_000 : 40, n) }));
      const container = openContainer();
      let at = 0;
      for (const cut of cuts) {
        await container.add(all.slice(at, at + cut));
        at += cut;
      }
      await container.add(all.slice(at));
      const made = await container.close({ topic: "events.raw", partition: 7, first: 0, last: 59 });
      expect(made.contents).toEqual((await writeContainer("events.raw", 7, all)).contents);
      const read = (await readContainer("k", made.file)).records;
      expect(read.map(({ offset, value }, n) => [offset, value!.equals(all[n]!.value!)])).toEqual(
        all.map(({ offset }) => [offset, true]),
      );
    }),
    { numRuns: 20 },
  );
});

test("a file of which any byte has changed is never taken for what was written", async () => {
  const { file } = await writeContainer(
    "events.raw",
    7,
    range(0, 300).map((n) => recordOf(n)),
  );
  const before = await readContainer("k", file);
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: file.length - 1 }),
      fc.integer({ min: 1, max: 255 }),
      async (at, change) => {
        const broken = Buffer.from(file);
        broken[at]! ^= change;
        // A byte that does not affect the records, for example of a name in the metadata, may
        // differ.
        const read = await readContainer("k", broken).catch((error: Error) => error);
        if (read instanceof Error) expect(read.message).toMatch(/^k is damaged: /);
        else expect(read.records).toEqual(before.records);
      },
    ),
    // The example unpacks, and its record claims to have millions of headers.
    { numRuns: 200, examples: [[904, 255]] },
  );
  for (const length of [0, 3, 40, file.length - 20, file.length - 1])
    await expect(readContainer("k", file.subarray(0, length))).rejects.toThrow("k is damaged");
}, 60_000);

test(
  "a file lies in the hour of its first record, is named after its offsets, and is announced " + "beside it",
  async () => {
    const objects = inMemoryObjects();
    const keep = keeping(objects);
    const atHourEnd = [
      messageOf(0),
      messageOf(1),
      messageOf(2, { appendedAt: START + HOUR_MS }),
      messageOf(3, { appendedAt: START + HOUR_MS }),
    ];
    expect(await keep(batchOf(atHourEnd))).toBe(4);
    expect([...objects.held.keys()]).toEqual([
      "archive/events.raw/2026-11-21T16/07-000000000000.json",
      "archive/events.raw/2026-11-21T16/07-000000000000-000000000001.avro",
      "archive/events.raw/2026-11-21T17/07-000000000002.json",
      "archive/events.raw/2026-11-21T17/07-000000000002-000000000003.avro",
    ]);
    const hours = [];
    for await (const hour of hoursOf(objects, "events.raw")) hours.push(new Date(hour).getUTCHours());
    expect(hours).toEqual([16, 17]);
    expect(fileOf(fileKey({ topic: "events.raw", hour: START, partition: 11 }, 5, 9), 1)).toMatchObject({
      partition: 11,
      first: 5,
      last: 9,
    });
  },
);

test("a clock of the broker that steps back opens no further file", async () => {
  const objects = inMemoryObjects();
  const back = [messageOf(0), messageOf(1, { appendedAt: START - HOUR_MS }), messageOf(2)];
  await keeping(objects)(batchOf(back));
  expect(await listed(objects)).toMatchObject([{ first: 0, last: 2 }]);
});

test("the schemas that records name are stored once, and can be read without the registry", async () => {
  const objects = inMemoryObjects();
  const asked: number[] = [];
  const keep = keeping(objects, async (id) => {
    asked.push(id);
    return id === 7 ? { type: "string" } : null;
  });
  await keep(batchOf([messageOf(0), messageOf(1), messageOf(2, { value: Buffer.from([0, 0, 0, 0, 9, 1]) })]));
  await keep(batchOf([messageOf(3), messageOf(4, { value: Buffer.from("garbage") })]));
  expect(asked).toEqual([7, 9]);
  expect(await archivedSchema(objects, 7)).toEqual({ type: "string" });
  expect(await archivedSchema(objects, 9)).toBeNull();
});

test("an announced file is written by the next member, with what was announced and nothing else", async () => {
  let isDying = true;
  const objects = inMemoryObjects((effect) => {
    if (isDying && effect.startsWith("put archive") && effect.endsWith(".avro")) throw new Error("killed");
  });
  const five = range(0, 5).map((n) => messageOf(n));
  await expect(keeping(objects)(batchOf(five))).rejects.toThrow("killed");
  expect(await listed(objects)).toEqual([]);
  isDying = false;
  const next = keeping(objects);
  // Fewer records than announced are here, so the member waits for the rest.
  expect(await next(batchOf(five.slice(0, 3)))).toBe(0);
  expect(await next(batchOf(range(0, 8).map((n) => messageOf(n))))).toBe(8);
  expect(await listed(objects)).toMatchObject([
    { first: 0, last: 4 },
    { first: 5, last: 7 },
  ]);
});

test("what waits is stored as one file, however many pieces it comes in; the rest stays uncommitted", async () => {
  const objects = inMemoryObjects();
  const { keep, forget } = archiver(objects, noSchema);
  const piece = (from: number, until: number) => batchOf(range(from, until).map((n) => messageOf(n)));
  expect(await keep(piece(0, 3), 10, still)).toEqual({ stored: 0, next: 3 });
  expect(await keep(piece(3, 8), 10, still)).toEqual({ stored: 0, next: 8 });
  expect(await listed(objects)).toEqual([]);
  expect(await keep(piece(8, 12), 10, still)).toEqual({ stored: 12, next: 12 });
  expect(await listed(objects)).toMatchObject([{ first: 0, last: 11 }]);
  // After the group is joined again, records that were taken but not stored are read again.
  expect(await keep(piece(12, 15), 20, still)).toEqual({ stored: 12, next: 15 });
  forget();
  expect(await keep(piece(12, 20), 20, still)).toEqual({ stored: 20, next: 20 });
  expect(await listed(objects)).toMatchObject([
    { first: 0, last: 11 },
    { first: 12, last: 19 },
  ]);
});

test("a file is closed at 32 MiB, wherever the log ends", async () => {
  const objects = inMemoryObjects();
  const { keep } = archiver(objects, noSchema);
  const value = Buffer.alloc(4 * 1024 * 1024, 1);
  let at = 0;
  while ((await listed(objects)).length === 0) {
    const { next } = await keep(batchOf([messageOf(at, { value })]), 1_000, still);
    at = next;
  }
  expect(await listed(objects)).toMatchObject([{ first: 0, last: 7 }]);
});

test("another member that announced other ends while a file was made is followed, whichever comes first", async () => {
  const objects = inMemoryObjects();
  const piece = (from: number, until: number) => batchOf(range(from, until).map((n) => messageOf(n)));
  const slow = archiver(objects, noSchema).keep;
  expect(await slow(piece(0, 5), 8, still)).toEqual({ stored: 0, next: 5 });
  // The other member dies between its announcement and its file.
  let isDying = true;
  const dying: Objects = {
    ...objects,
    put: async (key, body) => {
      if (isDying) throw new Error("killed");
      await objects.put(key, body);
    },
  };
  await expect(keeping(dying)(piece(0, 6))).rejects.toThrow("killed");
  isDying = false;
  expect(await slow(piece(5, 8), 8, still)).toEqual({ stored: 0, next: 0 });
  expect(await slow(piece(0, 8), 8, still)).toEqual({ stored: 8, next: 8 });
  expect(await listed(objects)).toMatchObject([
    { first: 0, last: 5 },
    { first: 6, last: 7 },
  ]);
});

test("what stands is left alone after a rewind to the middle of a file", async () => {
  const objects = inMemoryObjects();
  const all = range(0, 20).map((n) => messageOf(n));
  await keeping(objects)(batchOf(all.slice(0, 10)));
  const before = new Map(objects.held);
  const again = keeping(objects);
  expect(await again(batchOf(all.slice(4, 6)))).toBe(10);
  expect(await again(batchOf(all.slice(6, 20)))).toBe(20);
  for (const [key, body] of before) expect(objects.held.get(key)?.equals(body)).toBe(true);
  expect(await listed(objects)).toMatchObject([
    { first: 0, last: 9 },
    { first: 10, last: 19 },
  ]);
});

/**
 * A member of the group: it reads from the commit at its start, in batches of its own size, and is
 * killed or frozen between any two effects.
 */
interface Member {
  /** Sizes of batches. */
  readonly cuts: readonly number[];
  /** The number of waiting records at each fetch; its files end there. */
  readonly gathered: number;
  /** Effects until it dies. */
  readonly lives: number;
  /** Begins at an older commit, as a member that was frozen and does not know of the others. */
  readonly isLate: boolean;
}
const LOG = range(0, 60).map((n) => messageOf(n, { appendedAt: START + n * 120_000 }));

const runMembers = async (
  members: readonly Member[],
): Promise<{ readonly objects: InMemoryObjects; readonly committed: number }> => {
  let lives = Number.POSITIVE_INFINITY;
  const objects = inMemoryObjects(() => {
    if (lives-- <= 0) throw new Error("killed");
  });
  let committed = 0;
  let before = 0;
  const read = async ({ cuts, gathered, lives: given, isLate }: Member): Promise<void> => {
    lives = given;
    const { keep } = archiver(objects, noSchema);
    let at = isLate ? before : committed;
    let until = at;
    before = committed;
    for (let n = 0; at < LOG.length; n++) {
      if (n > 1_000) throw new Error(`it comes no further than ${at}`);
      if (at >= until) until = Math.min(at + gathered, LOG.length);
      const batch = LOG.slice(at, at + cuts[n % cuts.length]!);
      const end = at + batch.length;
      const { stored, next } = await keep(batchOf(batch), until, still);
      if (lives-- <= 0) return;
      committed = Math.max(committed, Math.min(stored, end));
      at = Math.min(next, end);
    }
  };
  for (const member of members)
    await read(member).catch((error: Error) => {
      if (error.message !== "killed") throw error;
    });
  await read({ cuts: [60], gathered: 60, lives: Number.POSITIVE_INFINITY, isLate: false });
  return { objects, committed };
};

test(
  "whichever members die or store the same records: the files hold the log once, byte for byte",
  () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            cuts: fc.array(fc.integer({ min: 1, max: 25 }), { minLength: 1, maxLength: 4 }),
            gathered: fc.integer({ min: 1, max: 40 }),
            lives: fc.integer({ min: 0, max: 30 }),
            isLate: fc.boolean(),
          }),
          { maxLength: 6 },
        ),
        async (members) => {
          const { objects } = await runMembers(members);
          const files = await listed(objects);
          expect(seamsOf(files)).toEqual({ gaps: [], overlaps: [] });
          const records = [];
          for (const file of files) records.push(...(await readFile(objects, file)).records);
          expect(records.map(({ offset, key, value }) => [offset, String(key), value!.toString("hex")])).toEqual(
            LOG.map(({ offset, key, value }) => [offset, String(key), value!.toString("hex")]),
          );
        },
      ),
      { numRuns: 200 },
    ),
  60_000,
);

test(
  "a partition's past is read from where memory ends to where the log begins, under its old " +
    "offsets and without erased subjects",
  async () => {
    const objects = inMemoryObjects();
    const keep = keeping(objects);
    for (const at of [0, 20, 40]) await keep(batchOf(LOG.slice(at, at + 20)));
    await keep(batchOf(LOG.slice(0, 20), 3));
    const past = pastOf(objects, { since: () => 0 });
    const offsets: number[] = [];
    for await (const { messages } of past("events.raw", 7, 15, 45))
      offsets.push(...messages.map(({ offset }) => offset));
    expect(offsets).toEqual(range(15, 45));
    const forgetful = pastOf(objects, {
      since: () => 0,
      withheld: async () => (message, partition) => partition === 7 && message.offset % 2 === 1,
    });
    const even: number[] = [];
    for await (const { messages } of forgetful("events.raw", 7, 15, 20))
      even.push(...messages.map(({ offset }) => offset));
    expect(even).toEqual([16, 18]);
    for await (const _ of past("claims", 7, 0, 45)) throw new Error("claims is not archived");
  },
);

test("hours older than 24 months are deleted with their announcements, and schemas stay", async () => {
  const objects = inMemoryObjects();
  const keep = keeping(objects, async () => ({ type: "string" }));
  const months = (count: number): number => Date.UTC(2026, 10 + count, 21, 16);
  const ats = [months(-25), months(-24) - HOUR_MS, months(-24), months(-23)];
  await keep(batchOf(ats.map((appendedAt, offset) => messageOf(offset, { appendedAt }))));
  expect(await deleteOldHours(objects, "events.raw", months(0), () => true)).toBe(0);
  expect(await deleteOldHours(objects, "events.raw", months(0), () => false)).toBe(2);
  expect(await listed(objects)).toMatchObject([{ first: 2 }, { first: 3 }]);
  expect([...objects.held.keys()].filter((key) => key.endsWith(".json")).sort()).toEqual([
    "archive/events.raw/2024-11-21T16/07-000000000002.json",
    "archive/events.raw/2024-12-21T16/07-000000000003.json",
    "archive/schemas/7.json",
  ]);
  expect(await deleteOldHours(objects, "events.raw", months(0), () => false)).toBe(0);
});

test("gaps and overlaps are reported with their partition and offsets", () => {
  const file = (partition: number, first: number, last: number) => ({
    key: "",
    topic: "events.raw",
    hour: START - (START % HOUR_MS),
    partition,
    first,
    last,
    bytes: 1,
  });
  expect(seamsOf([file(0, 0, 9), file(1, 0, 4), file(0, 15, 20), file(1, 3, 9), file(0, 10, 11)])).toEqual({
    gaps: [{ partition: 0, from: 12, until: 15, hour: "2026-11-21T16" }],
    overlaps: [{ partition: 1, from: 3, until: 5, hour: "2026-11-21T16" }],
  });
});

test(
  "what was committed and lies before the first file of a partition, or behind its last one, is " +
    "reported, however many files there are",
  () => {
    const hour = START - (START % HOUR_MS);
    const files = range(0, 200_000).map((n) => ({
      key: "",
      topic: "events.raw",
      hour,
      partition: 0,
      first: 10 + n,
      last: 10 + n,
      bytes: 1,
    }));
    expect(uncoveredEnds(files, new Map([[0, 200_015]]), new Map([[0, 4]]))).toEqual([
      { partition: 0, from: 4, until: 10, hour: "2026-11-21T16" },
      { partition: 0, from: 200_010, until: 200_015, hour: "2026-11-21T16" },
    ]);
    expect(uncoveredEnds(files, new Map([[0, 200_010]]), new Map([[0, 10]]))).toEqual([]);
    // Files of another partition do not cover this one.
    expect(uncoveredEnds(files, new Map([[1, 3]]), new Map())).toMatchObject([{ partition: 1, from: 0, until: 3 }]);
  },
);

test("a file that was renamed is reported as damaged, and what lies beside it is read", async () => {
  const objects = inMemoryObjects();
  const keep = keeping(objects);
  await keep(batchOf([messageOf(0), messageOf(1)]));
  await keep(batchOf([messageOf(2), messageOf(3)]));
  const place = { topic: "events.raw", hour: START - (START % HOUR_MS), partition: 7 };
  const [was, is] = [fileKey(place, 2, 3), fileKey(place, 2, 9)];
  await objects.put(is, await objects.get(was));
  await objects.delete(was);
  const plan = await planRestore(objects, { topic: "events.raw", from: START - HOUR_MS, to: START + HOUR_MS });
  expect(plan).toMatchObject({
    events: 2,
    damaged: [{ key: is, message: `${is} is damaged: it holds 7-2-3: it was renamed` }],
  });
});

test("what could not be learnt while the store was away is learnt when it is back", async () => {
  let isAway = true;
  const objects = inMemoryObjects();
  const failing: Objects = {
    ...objects,
    list: (prefix, after) => {
      if (isAway) throw new Error("the store is away");
      return objects.list(prefix, after);
    },
  };
  const withheld = withheldBy(failing, inMemoryWire([topics.eventsRaw]), topics.eventsRaw, async () => () => false);
  await expect(withheld()).rejects.toThrow("the store is away");
  isAway = false;
  // An unreadable record is withheld while any person is erased.
  expect(
    (await withheld())?.({ offset: 0, key: null, value: Buffer.from("garbage"), headers: {}, appendedAt: 0 }, 0),
  ).toBe(true);
});
