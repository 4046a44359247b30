// A span of the log is read from the archive where Kafka no longer has it; a missing part is
// refused or reported.

import { expect, test } from "vitest";
import { CommandRefused } from "../../infra/runtime/command-errors.ts";
import { spansOf } from "../../modules/money/reprocess/span.ts";
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
  const all = (from: number, until: number): readonly InputMessage[] => log.read(topic.name, 0, from, until - from);
  const past: PastReader = async function* (name, partition, from, until) {
    const messages = all(0, high).filter(({ offset }) => archived.includes(offset) && offset >= from && offset < until);
    for (const message of messages)
      yield { topic: name, partition, messages: [message], from: message.offset, until: message.offset + 1 };
  };
  const notes: string[] = [];
  const read: number[] = [];
  return {
    notes,
    read,
    span: (from: number, until: number | null, needed: number) =>
      spansOf({
        kafka: {
          admin: async () => ({
            watermarks: async () => [{ partition: 0, low, high }],
            offsetsAt: async (_, at) => new Map([[0, offsetAt(at)]]),
            close: async () => undefined,
          }),
          replay: async ({ from: starts, until: ends, onBatch }) => {
            const messages = all(starts!.get(topic.name)!.get(0)!, ends?.get(topic.name)?.get(0) ?? high);
            const batch = {
              topic: topic.name,
              partition: 0,
              messages,
              highWatermark: high,
            } as InputBatch;
            if (messages.length > 0) await onBatch(batch as never, async () => undefined);
          },
        },
        archived: { since: () => past, begins: async () => (begins === undefined ? null : noon + begins * hourMs) },
        needed: noon + needed * hourMs,
        progress: () => ({ at: () => undefined, note: (text) => notes.push(text), done: () => undefined }),
      })(
        topic,
        { from: noon + from * hourMs, until: until === null ? null : noon + until * hourMs },
        ({ messages }) => {
          read.push(...messages.map(({ offset }) => offset));
        },
      ),
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

test("journeys that are cut short are reported, and the window is read all the same", async () => {
  const { span, read, notes } = given({ high: 8, low: 3, archived: [] });
  await span(0, null, 5);
  expect(read).toEqual([3, 4, 5, 6, 7]);
  expect(notes).toEqual([expect.stringContaining("journeys and persons may be shorter")]);
});
