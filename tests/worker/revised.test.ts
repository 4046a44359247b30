// Before the first batch of a partition, once in a membership, the deciding revision is recorded
// with its first offset; without that record nothing is processed.
import { expect, test } from "vitest";
import { revised } from "../../modules/log/groups/revision-reader.ts";
import type { Control, InputBatch } from "../../stream/messages.ts";
import type { Retry } from "../../stream/ports.ts";

const batch = (partition: number, offset: number): InputBatch => ({
  topic: "in",
  partition,
  messages: [{ offset, key: null, value: null, headers: {}, appendedAt: 0 }],
});
const control = (isCurrent = true): Control => ({
  commit: async () => undefined,
  heartbeat: async () => undefined,
  isCurrent: () => isCurrent,
  seek: () => undefined,
  readOn: () => undefined,
  rest: () => undefined,
});
const once: Retry = (_, step) => step();
const watched = (refusal?: Error) => {
  const effects: string[] = [];
  const made = revised(
    async ({ partition, messages }) => void effects.push(`process ${partition}@${messages[0]!.offset}`),
    async (_, partition, offset) => {
      if (refusal !== undefined) throw refusal;
      effects.push(`record ${partition}@${offset}`);
    },
    once,
  );
  return { ...made, effects };
};

test("once a partition, before its first batch, and again after the group was joined again", async () => {
  const { process, onJoin, effects } = watched();
  await process(batch(0, 5), control());
  await process(batch(0, 9), control());
  await process(batch(3, 1), control());
  onJoin();
  await process(batch(0, 12), control());
  expect(effects).toEqual([
    "record 0@5",
    "process 0@5",
    "process 0@9",
    "record 3@1",
    "process 3@1",
    "record 0@12",
    "process 0@12",
  ]);
});

test("a revision that may not decide there stops the worker before anything is processed", async () => {
  const { process, effects } = watched(new Error("let the former version catch up first"));
  await expect(process(batch(0, 5), control())).rejects.toThrow("catch up first");
  expect(effects).toEqual([]);
});

test("a partition that was lost meanwhile is left, and recorded by its next owner", async () => {
  const { process, effects } = watched();
  await process(batch(0, 5), control(false));
  expect(effects).toEqual(["record 0@5"]);
});
