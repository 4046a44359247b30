// Which due letters are sent again: letters of one root share one message, built from the bytes
// that are still there.
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { placeOf } from "../../infra/kafka/kafka.ts";
import { failureOf, letterSources } from "../../modules/log/dead-letters/failure.ts";
import { type Failure, indexFailures, type Letter } from "../../modules/log/dead-letters/letter.ts";
import { sendDue } from "../../modules/log/dead-letters/retry.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { noon, received, recorded } from "../support/builders.ts";

const wire = inMemoryWire(letterSources);
const event = received();
const value = Buffer.from(wire.encode(topics.eventsRaw, recorded(topics.eventsRaw, event), null));
/** One refused event, for which two readers each left a letter. */
const record = deadLetterOf(
  {
    to: "s2s.dlq",
    stage: "enrich",
    code: "refused_by_store",
    message: "refused",
    position: { topic: "events.raw", partition: 0, offset: 5 },
    key: Buffer.from("7:d1"),
    value,
    headers: {},
  },
  noon,
);
const kept = { key: Buffer.from("7:d1"), value, headers: record.headers as Record<string, Buffer> };

const letters = async (): Promise<readonly Letter[]> => {
  const failure: Failure = await failureOf(wire, kept, { topic: "s2s.dlq", partition: 0, offset: 0 }, noon);
  const { letters: made } = indexFailures({ letters: [], failures: new Set() }, [failure], () => 0);
  return [0, 1, 2].map((offset) => ({ ...made[0]!, letter_id: `dl_${offset}`, kept: { ...failure.kept, offset } }));
};

test("letters of a root are sent as long as one of them still has its bytes, whichever it is", async () => {
  const due = await letters();
  for (const holding of [[0], [1], [2], []]) {
    const produced: OutputMessage[] = [];
    const sent: string[] = [];
    const parked: string[] = [];
    await sendDue(
      {
        claims: {
          claim: async () => due,
          sent: async (all) => void sent.push(...all.map(({ letter_id }) => letter_id)),
          park: async (all) => void parked.push(...all.map(({ letter_id }) => letter_id)),
          discard: async () => undefined,
        },
        pick: async () => new Map(holding.map((n) => [placeOf(due[n]!.kept), kept])),
        produce: async (messages) => void produced.push(...messages),
        wire,
        readmit: async () => undefined,
        hides: async () => undefined,
        clock: () => noon,
      },
      10,
    );
    const all = due.map(({ letter_id }) => letter_id);
    expect([produced.length, sent, parked]).toEqual(holding.length > 0 ? [1, all, []] : [0, [], all]);
  }
});

test("a sample whose time is over is discarded and not sent; a person may send it before", async () => {
  const [one] = await letters();
  const sample: Letter = { ...one!, code: "bad_json", is_stranger: true, last_failed_at: noon };
  const triedAt = async (now: number) => {
    const done: string[] = [];
    await sendDue(
      {
        claims: {
          claim: async () => [sample],
          sent: async () => void done.push("sent"),
          park: async () => void done.push("parked"),
          discard: async (all, reason) => void done.push(`${all.length} discarded: ${reason}`),
        },
        pick: async () => new Map([[placeOf(sample.kept), kept]]),
        produce: async (messages) => void done.push(`${messages.length} produced`),
        wire,
        readmit: async () => undefined,
        hides: async () => undefined,
        clock: () => now,
      },
      10,
    );
    return done;
  };
  expect(await triedAt(noon + 1_000)).toEqual(["1 produced", "sent"]);
  expect(await triedAt(noon + 2 * 86_400_000)).toEqual([
    "1 discarded: it never becomes an event: its sample was kept for 48 hours",
  ]);
});
