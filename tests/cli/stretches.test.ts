// Stretches of the log are read from the archive where Kafka no longer has them; a missing part is
// refused or reported.

import { expect, test } from "vitest";
import { CommandRefused } from "../../infra/runtime/command-errors.ts";
import { sizeIn, stretchesOf } from "../../modules/money/reprocess/log/stretches.ts";
import type { Stretch } from "../../modules/money/reprocess/ports.ts";
import type { InputBatch, InputMessage } from "../../stream/messages.ts";
import type { PastReader } from "../../stream/ports.ts";
import { inMemoryLog } from "../../stream/testing/in-memory-log.ts";
import { topics } from "../../topics.ts";
import { hourMs, noon } from "../support/builders.ts";

const topic = topics.eventsRaw;
/**
 * A log of one partition: message n was appended n hours after noon, and those before `low` are
 * gone. The archive holds `archived`.
 */
const given = (
  { high, low, archived }: { readonly high: number; readonly low: number; readonly archived: readonly number[] },
  begins?: number,
) => {
  const log = inMemoryLog({ [topic.name]: 1 });
  log.append(Array.from({ length: high }, (_, n) => ({ topic: topic.name, key: "k", value: Buffer.from(String(n)) })));
  const offsetAt = (at: number): number => Math.min(high, Math.max(low, Math.ceil((at - noon) / hourMs)));
  const all = (from: number, until: number): readonly InputMessage[] =>
    log.read(topic.name, 0, from, until - from).map((one) => ({ ...one, appendedAt: noon + one.offset * hourMs }));
  const past: PastReader = async function* (name, partition, from, until) {
    const messages = all(0, high).filter(({ offset }) => archived.includes(offset) && offset >= from && offset < until);
    for (const message of messages)
      yield { topic: name, partition, messages: [message], from: message.offset, until: message.offset + 1 };
  };
  const notes: string[] = [];
  const read: number[] = [];
  const admin = async () => ({
    watermarks: async () => [{ partition: 0, low, high }],
    offsetsAt: async (_: string, at: number) => new Map([[0, offsetAt(at)]]),
    close: async () => undefined,
  });
  const stretchFrom = (from: number, until: number | null): Stretch => ({
    from: noon + from * hourMs,
    until: until === null ? null : noon + until * hourMs,
    partition: null,
  });
  const spans = (stretches: readonly Stretch[], needed: number): Promise<void> =>
    stretchesOf({
      kafka: {
        admin,
        ranges: async (ranges, onBatch) => {
          const wanted = ranges.flatMap(({ start, end }) => all(start, end));
          const messages = [...new Map(wanted.map((one) => [one.offset, one])).values()];
          const batch = { topic: topic.name, partition: 0, messages, highWatermark: high } as InputBatch;
          if (messages.length > 0) await onBatch(batch as never, async () => undefined);
        },
      },
      archived: { since: () => past, begins: async () => (begins === undefined ? null : noon + begins * hourMs) },
      needed: noon + needed * hourMs,
      progress: () => ({ at: () => undefined, note: (text) => notes.push(text), done: () => undefined }),
    })(topic, stretches, ({ messages }) => {
      read.push(...messages.map(({ offset }) => offset));
    });
  return {
    notes,
    read,
    stretchFrom,
    spans,
    span: (from: number, until: number | null, needed: number) => spans([stretchFrom(from, until)], needed),
    size: (...stretches: readonly Stretch[]) => sizeIn({ admin }, topic, stretches),
  };
};

test("what Kafka holds is read between the two times", async () => {
  const { span, read } = given({ high: 8, low: 0, archived: [] });
  await span(2, 5, 3);
  expect(read).toEqual([2, 3, 4]);
});

test("what Kafka has let go comes first, from the archive", async () => {
  const { span, read, notes } = given({ high: 8, low: 3, archived: [0, 1, 2, 3, 4] });
  await span(0, null, 2);
  expect([read, notes]).toEqual([[0, 1, 2, 3, 4, 5, 6, 7], []]);
});

test("a window that is nowhere is refused, and nothing of Kafka is read for it", async () => {
  const { span, read } = given({ high: 8, low: 3, archived: [0] });
  await expect(span(0, null, 1)).rejects.toThrow(CommandRefused);
  await expect(span(0, null, 1)).rejects.toThrow(/a later --from/);
  expect(read.every((offset) => offset === 0)).toBe(true);
});

test("an archive with a hole, or one that began too late, is no archive of the window", async () => {
  await expect(given({ high: 8, low: 4, archived: [0, 1, 3] }).span(0, null, 1)).rejects.toThrow(CommandRefused);
  await expect(given({ high: 8, low: 4, archived: [2, 3] }, 2).span(0, null, 1)).rejects.toThrow(CommandRefused);
  const late = given({ high: 8, low: 4, archived: [2, 3] }, 2);
  await late.span(0, null, 2);
  expect([late.read, late.notes.length]).toEqual([[2, 3, 4, 5, 6, 7], 1]);
});

test("a past that is cut short is reported, and the window is read all the same", async () => {
  const { span, read, notes } = given({ high: 8, low: 3, archived: [] });
  await span(0, null, 5);
  expect(read).toEqual([3, 4, 5, 6, 7]);
  expect(notes).toEqual([expect.stringContaining("copies of before are taken as they were read then")]);
});

test("stretches that overlap are read once, and what lies between others is not read", async () => {
  const { spans, stretchFrom, read, size } = given({ high: 12, low: 0, archived: [] });
  const stretches = [stretchFrom(8, 10), stretchFrom(1, 3), stretchFrom(2, 4)];
  await spans(stretches, 1);
  expect(read).toEqual([1, 2, 3, 8, 9]);
  expect(await size(...stretches)).toBe(5);
});

test("of the archive, too, only the stretch is read", async () => {
  const { span, read, notes } = given({ high: 12, low: 8, archived: [0, 1, 2, 3, 4, 5, 6, 7] });
  await span(2, 5, 2);
  expect([read, notes]).toEqual([[2, 3, 4], []]);
});
