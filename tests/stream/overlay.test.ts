// A value on top of durable memory is read from then on, and the memory below never changes.
import { expect, test } from "vitest";
import { overlay } from "../../modules/money/reprocess/overlay.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory, MemoryWrite } from "../../stream/memory/memory.ts";

const position = { topic: "claims", partition: 0, offset: 5 };
const remembering = (key: string, text: string, version: number): MemoryWrite => ({
  stage: "settle",
  topic: "claims",
  partition: 0,
  mark: 6,
  changes: [{ key, eventId: text, offset: 5, position, version, value: Buffer.from(text) }],
  met: [{ key, version: version - 1 }],
  outcomes: [{ eventId: text, position, bytes: Buffer.from(text) }],
  forgets: [],
});
const wanted = { stage: "settle", keys: ["a", "b"], eventIds: ["first", "second"], topic: "claims", partition: 0 };
const seenIn = async (memory: Pick<Memory, "load">) => {
  const { versions, outcomes } = await memory.load(wanted);
  return {
    versions: Object.fromEntries([...versions].map(([key, found]) => [key, String(found.at(-1)?.value)])),
    outcomes: [...outcomes.keys()].sort(),
  };
};

test("the newest of both is met, and underneath everything is as it was", async () => {
  const under = inMemory("durable");
  await under.remember([remembering("a", "first", 1)]);
  const above = overlay(under);
  expect(await seenIn(above)).toEqual({ versions: { a: "first" }, outcomes: ["first"] });
  expect(await above.remember([remembering("a", "second", 2), remembering("b", "third", 1)])).toBe("remembered");
  expect(await seenIn(above)).toEqual({ versions: { a: "second", b: "third" }, outcomes: ["first", "second"] });
  expect(await seenIn(under)).toEqual({ versions: { a: "first" }, outcomes: ["first"] });
});
