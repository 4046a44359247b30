// The last resort: messages are sent once, in order, and then removed; they are counted without
// being read; and they are kept even if their edge never comes back.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fsObjects } from "../../infra/objects/fs.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { drainAbandoned, lastResortHeld, openLastResort } from "../../infra/spool/last-resort.ts";
import type { Send } from "../../infra/spool/sending.ts";
import type { OutputMessage } from "../../stream/messages.ts";

const workshop = mkdtempSync(join(tmpdir(), "last-resort-"));
afterAll(() => rmSync(workshop, { recursive: true, force: true }));
let folders = 0;
const fresh = (): { readonly folder: string; readonly objects: Objects } => {
  folders += 1;
  const folder = join(workshop, String(folders));
  return { folder, objects: fsObjects(folder) };
};
const schemas = { notes: { type: "record", name: "Note", fields: [] } };
const note = (text: string): OutputMessage => ({ topic: "notes", key: null, value: Buffer.from(text) });
const opened = (objects: Objects, instance = "edge-1", now?: () => number) =>
  openLastResort({ objects, instance, schemas, ...(now === undefined ? {} : { now }) });
const collecting = (): { readonly texts: string[]; readonly send: Send } => {
  const texts: string[] = [];
  return { texts, send: async (messages) => void texts.push(...messages.map(({ value }) => value!.toString())) };
};
const keysIn = async (objects: Objects): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of objects.list("last-resort/")) keys.push(key);
  return keys;
};

test("requests that come together share an object, which is sent in order and then deleted", async () => {
  const { objects } = fresh();
  const resort = opened(objects);
  await Promise.all(["a", "b", "c"].map((text) => resort.put([note(text)], "s2s")));
  await resort.put([note("d")], "pixel");
  expect(await keysIn(objects)).toHaveLength(2);
  expect(resort.held()).toMatchObject({ messages: 4 });
  const { texts, send } = collecting();
  while ((await resort.drain(send)) > 0);
  expect(texts).toEqual(["a", "b", "c", "d"]);
  expect([await keysIn(objects), resort.held().messages]).toEqual([[], 0]);
});

test("what could not be sent stays, and a later process of the same name finds it", async () => {
  const { objects } = fresh();
  const before = opened(objects);
  await before.put([note("a")], "s2s");
  await expect(before.drain(() => Promise.reject(new Error("away")))).rejects.toThrow("away");
  const after = opened(objects);
  expect(after.held().messages).toBe(0);
  await after.look();
  expect(after.held().messages).toBe(1);
  const { texts, send } = collecting();
  await after.drain(send);
  expect(texts).toEqual(["a"]);
  // A reader that still has the object in its list finds that it is gone.
  await before.drain(send);
  expect(texts).toEqual(["a"]);
});

test("what the store refuses is an error of the caller, and is not counted", async () => {
  const { folder, objects } = fresh();
  writeFileSync(folder, "");
  const resort = opened(objects);
  await expect(resort.put([note("a")], "s2s")).rejects.toThrow();
  expect(resort.held().messages).toBe(0);
});

test("events of all edges are counted by kind, with the age of the oldest, from the names of the objects", async () => {
  const { objects } = fresh();
  await opened(objects, "edge-1", () => 5_000).put([note("a"), note("b")], "s2s");
  await opened(objects, "edge-2", () => 3_000).put([note("c")], "clicks");
  expect(await lastResortHeld(objects)).toEqual({ byLabel: { s2s: 2, clicks: 1 }, oldestAt: 3_000 });
});

test("old objects are sent from any edge, new ones are left to their own, and a damaged one blocks none", async () => {
  const { folder, objects } = fresh();
  const now = 1_000_000;
  await opened(objects, "gone", () => 1_000).put([note("old")], "s2s");
  await opened(objects, "broken", () => 500).put([note("damaged")], "s2s");
  await opened(objects, "alive", () => now - 10).put([note("new")], "s2s");
  const [damaged] = (await keysIn(objects)).filter((key) => key.includes("/broken/"));
  writeFileSync(join(folder, damaged!), "nonsense");
  const { texts, send } = collecting();
  await expect(drainAbandoned(objects, send, { ageMs: 60_000, now: () => now })).rejects.toThrow(/broken/);
  expect(texts).toEqual(["old"]);
  expect((await keysIn(objects)).map((key) => key.split("/")[1])).toEqual(["alive", "broken"]);
});

test("however many objects wait, asking what is held has one price; beyond a bound it is refused", async () => {
  const waiting = Array.from({ length: 200_000 }, (_, n) => {
    const at = new Date(Date.UTC(2026, 0, 1) + n).toISOString().replaceAll(":", "");
    return {
      key: `last-resort/edge-1/${at}-${"0".repeat(8)}-0000-4000-8000-${"0".repeat(12)}.s2s-3`,
      bytes: 1,
      storedAt: 0,
    };
  });
  const objects: Objects = {
    ...fresh().objects,
    list: async function* () {
      yield* waiting;
    },
  };
  const resort = opened(objects);
  await resort.look();
  const before = process.cpuUsage();
  for (let n = 0; n < 1_000; n += 1) expect(resort.held().messages).toBe(600_000);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(500);
  await expect(resort.put([note("a")], "s2s")).rejects.toThrow("200000 objects wait");
  expect(resort.held().messages).toBe(600_000);
});
