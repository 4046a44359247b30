// A client that keeps its events for a shorter time than the archive is removed from files with
// records of many clients, whatever fails in between, and the archive stays whole.
import { expect, test } from "vitest";
import type { Objects } from "../../infra/objects/objects.ts";
import { deleteOldRefused } from "../../modules/intake/path/refused-by-log.ts";
import { filesOf, pastOf, readFile } from "../../sinks/archive/archive-reads.ts";
import { checkArchive } from "../../sinks/archive/check.ts";
import { purgeExpired } from "../../sinks/archive/purge.ts";
import { planRestore } from "../../sinks/archive/restore.ts";
import { archiver } from "../../sinks/archive/write.ts";
import type { FetchedBatch } from "../../stream/messages.ts";
import { type InMemoryObjects, inMemoryObjects } from "../support/in-memory-objects.ts";

const TOPIC = "events.raw";
const HOUR_MS = 3_600_000;
const now = Date.UTC(2026, 10, 22, 12, 30);
const monthsAgo = (months: number, more = 0): number => Date.UTC(2026, 10 - months, 22, 12) + more;
/** One partition: at each time one record for each of the clients 3, 30 and 7. */
const clients = [3, 30, 7];
const times = [monthsAgo(13), monthsAgo(4), monthsAgo(2), monthsAgo(0, -HOUR_MS)];
const messages: FetchedBatch["messages"] = times.flatMap((appendedAt, n) =>
  clients.map((client, m) => ({
    offset: n * clients.length + m,
    key: Buffer.from(`${client}:device`),
    value: Buffer.from(`body of ${client}`),
    headers: {},
    appendedAt: appendedAt + m,
  })),
);
const filled = async (objects: InMemoryObjects = inMemoryObjects()): Promise<InMemoryObjects> => {
  const { keep } = archiver(objects, async () => null);
  await keep({ topic: TOPIC, partition: 7, messages, highWatermark: messages.length }, 0, async () => undefined);
  return objects;
};
const open = { now, isClosing: () => false };
const of = (clientId: number, months: number) => ({ clientId, months });
/** The clients of the records in each file. */
const heldIn = async (objects: Objects): Promise<readonly string[]> => {
  const held: string[] = [];
  for await (const file of filesOf(objects, TOPIC)) {
    const { records } = await readFile(objects, file);
    held.push(`${file.first}-${file.last}: ${records.map(({ key }) => Number.parseInt(String(key), 10)).join(" ")}`);
  }
  return held;
};
const whole = async (objects: Objects) => {
  const admin = {
    committed: async () => new Map([[7, messages.length]]),
    watermarks: async () => [{ partition: 7, low: 0, high: messages.length }],
  };
  const { gaps, overlaps, damaged } = await checkArchive(objects, admin as never, { group: "g", topic: TOPIC });
  return { gaps, overlaps, damaged };
};
const fine = { gaps: [], overlaps: [], damaged: [] };

test("what a client keeps no longer is gone from old files, and the others' records and newer ones stay", async () => {
  const objects = await filled();
  const purged = await purgeExpired(objects, TOPIC, [of(3, 3), of(30, 24), of(7, 12)], open);
  expect(purged).toMatchObject({ files: 2, records: 3, stoppedAt: null, damaged: [] });
  expect([...purged.byClient]).toEqual([
    [3, 2],
    [7, 1],
  ]);
  expect(await heldIn(objects)).toEqual(["0-2: 30", "3-5: 30 7", "6-8: 3 30 7", "9-11: 3 30 7"]);
  expect(await whole(objects)).toEqual(fine);
  expect(await planRestore(objects, { topic: TOPIC, from: 0, to: now })).toMatchObject({ events: 9, damaged: [] });
});

test("a file may be left without any record; it covers its offsets, for relearning too", async () => {
  const objects = await filled();
  await purgeExpired(objects, TOPIC, [of(3, 3), of(30, 3), of(7, 3)], open);
  expect(await heldIn(objects)).toEqual(["0-2: ", "3-5: ", "6-8: 3 30 7", "9-11: 3 30 7"]);
  expect(await whole(objects)).toEqual(fine);
  const past: [number, number, number][] = [];
  for await (const batch of pastOf(objects, { since: () => 0 })(TOPIC, 7, 1, 8))
    past.push([batch.from, batch.until, batch.messages.length]);
  expect(past).toEqual([
    [1, 3, 0],
    [3, 6, 0],
    [6, 8, 2],
  ]);
});

test("a dry run counts the same and changes nothing", async () => {
  const objects = await filled();
  const before = new Map(objects.held);
  expect(await purgeExpired(objects, TOPIC, [of(3, 3)], { ...open, isDry: true })).toMatchObject({ records: 2 });
  expect(objects.held).toEqual(before);
});

test("what was purged is not read again; a retention that is shortened, and a new client, begin again", async () => {
  const objects = await filled();
  await purgeExpired(objects, TOPIC, [of(3, 12)], open);
  let gets = 0;
  const counted: Objects = {
    ...objects,
    get: (key) => {
      if (key.endsWith(".avro")) gets += 1;
      return objects.get(key);
    },
  };
  expect(await purgeExpired(counted, TOPIC, [of(3, 12)], open)).toMatchObject({ records: 0 });
  expect(gets).toBe(0);
  expect(await purgeExpired(counted, TOPIC, [of(3, 24)], open)).toMatchObject({ records: 0 });
  expect(await purgeExpired(counted, TOPIC, [of(3, 1)], open)).toMatchObject({ records: 2 });
  expect(await purgeExpired(counted, TOPIC, [of(3, 1), of(7, 3)], open)).toMatchObject({ records: 2 });
  expect(await heldIn(objects)).toEqual(["0-2: 30", "3-5: 30", "6-8: 30 7", "9-11: 3 30 7"]);
});

test("killed before any of its effects and run again it ends the same; the archive is whole at any time", async () => {
  const wanted = await filled();
  await purgeExpired(wanted, TOPIC, [of(3, 3), of(7, 3)], open);
  const effects: string[] = [];
  let dieAt = Number.POSITIVE_INFINITY;
  const store = () =>
    filled(
      inMemoryObjects((effect) => {
        if (!isPurging) return;
        effects.push(effect);
        if (effects.length > dieAt) throw new Error("killed");
      }),
    );
  let isPurging = false;
  const counting = await store();
  isPurging = true;
  await purgeExpired(counting, TOPIC, [of(3, 3), of(7, 3)], open);
  const steps = effects.length;
  expect(steps).toBeGreaterThan(4);
  for (dieAt = 0; dieAt < steps; dieAt += 1) {
    isPurging = false;
    effects.length = 0;
    const objects = await store();
    isPurging = true;
    await expect(purgeExpired(objects, TOPIC, [of(3, 3), of(7, 3)], open)).rejects.toThrow("killed");
    isPurging = false;
    expect(await whole(objects), `dead before effect ${dieAt + 1}`).toEqual(fine);
    await purgeExpired(objects, TOPIC, [of(3, 3), of(7, 3)], open);
    expect(await heldIn(objects)).toEqual(await heldIn(wanted));
  }
});

test("one that must close goes on where it stopped, and a damaged file is met again until it is mended", async () => {
  const objects = await filled();
  const hours = [false, true];
  const closing = { now, isClosing: () => hours.shift() ?? true };
  expect(await purgeExpired(objects, TOPIC, [of(3, 3)], closing)).toMatchObject({
    records: 1,
    stoppedAt: monthsAgo(4),
  });
  const [second] = [...objects.held.keys()].filter((key) => /-0+3-0+5\.avro$/.test(key));
  const good = objects.held.get(second!)!;
  objects.held.set(second!, good.subarray(0, 90));
  for (let turn = 0; turn < 2; turn += 1) {
    const { damaged, records } = await purgeExpired(objects, TOPIC, [of(3, 1)], open);
    expect(damaged.map(({ key }) => key)).toEqual([second]);
    expect(records).toBe(turn === 0 ? 1 : 0);
  }
  objects.held.set(second!, good);
  expect(await purgeExpired(objects, TOPIC, [of(3, 1)], open)).toMatchObject({ records: 1, damaged: [] });
  expect((await heldIn(objects)).slice(0, 3)).toEqual(["0-2: 30 7", "3-5: 30 7", "6-8: 30 7"]);
});

test("behind a damaged file the next turn goes on where this one stopped; the file is met again later", async () => {
  const objects = await filled();
  const [first] = [...objects.held.keys()].filter((key) => /-0+0-0+2\.avro$/.test(key));
  const good = objects.held.get(first!)!;
  objects.held.set(first!, good.subarray(0, 90));
  let goOnAt: number | null = null;
  for (let turn = 0; turn < 3; turn += 1) {
    const looks = [false];
    const purged = await purgeExpired(objects, TOPIC, [of(3, 1)], {
      now,
      goOnAt,
      isClosing: () => looks.shift() ?? true,
    });
    expect(purged).toMatchObject({ records: turn === 0 ? 0 : 1, stoppedAt: [monthsAgo(4), monthsAgo(2), null][turn] });
    goOnAt = purged.stoppedAt;
  }
  objects.held.set(first!, good);
  expect((await heldIn(objects)).slice(0, 3)).toEqual(["0-2: 3 30 7", "3-5: 30 7", "6-8: 30 7"]);
  expect(await purgeExpired(objects, TOPIC, [of(3, 1)], open)).toMatchObject({ records: 1, stoppedAt: null });
  expect((await heldIn(objects)).slice(0, 3)).toEqual(["0-2: 30 7", "3-5: 30 7", "6-8: 30 7"]);
});

test("at the end of a long month a client that keeps one month loses no day of it", async () => {
  const march = (day: number, hour = 12): number => Date.UTC(2027, 2, day, hour);
  const objects = inMemoryObjects();
  const kept = messages.slice(0, 3).map((message) => ({ ...message, appendedAt: march(1, 5) }));
  const { keep } = archiver(objects, async () => null);
  await keep({ topic: TOPIC, partition: 7, messages: kept, highWatermark: 3 }, 0, async () => undefined);
  const on = (at: number) => purgeExpired(objects, TOPIC, [of(3, 1)], { ...open, now: at });
  for (const day of [29, 30, 31]) expect(await on(march(day)), `on March ${day}`).toMatchObject({ records: 0 });
  expect(await on(march(31 + 2))).toMatchObject({ records: 1 });
});

test("a value that the log refused is kept 30 days, whatever its name", async () => {
  const objects = inMemoryObjects();
  for (const key of ["refused/events.raw/old", "refused/events.raw/young", "archive/events.raw/old"])
    await objects.put(key, Buffer.from("x"));
  const days = (count: number): number => now - count * 86_400_000;
  objects.storedAt.set("refused/events.raw/old", days(31)).set("archive/events.raw/old", days(900));
  objects.storedAt.set("refused/events.raw/young", days(29));
  expect(await deleteOldRefused(objects, now, () => true)).toBe(0);
  expect(await deleteOldRefused(objects, now, () => false)).toBe(1);
  expect([...objects.held.keys()]).toEqual(["refused/events.raw/young", "archive/events.raw/old"]);
});
