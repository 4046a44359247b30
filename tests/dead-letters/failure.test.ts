// The content of a dead letter and the target of its retry, for each topic that letters come from.
import { describe, expect, test } from "vitest";
import { uuidOf } from "../../domain/ids.ts";
import { hidesOf } from "../../domain/personal/suppression.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { failureOf, letterSources, reentryOf, shownOf } from "../../modules/log/dead-letters/failure.ts";
import { indexFailures } from "../../modules/log/dead-letters/letter.ts";
import { deadLetterOf, letterHeaders } from "../../stream/dead-letters.ts";
import type { Topic } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import {
  attributed,
  claim,
  conversion,
  enriched,
  noon,
  purchase,
  received,
  recorded,
  scored,
} from "../support/builders.ts";

const wire = inMemoryWire(letterSources);
const ROOT = "00000000-0000-8000-8000-0000000000aa";
const SECOND = 1_000;
const kept = (stage: string, topic: string, value: Buffer | null, key = "k", read = topic): InputMessage => {
  const position = { topic: read, partition: 3, offset: 17 };
  const made = deadLetterOf(
    {
      to: "s2s.dlq",
      stage,
      code: "c",
      message: "m",
      position,
      key: Buffer.from(key),
      value,
      headers: { traceparent: "00-ab" },
    },
    noon,
  );
  return { offset: 0, key: Buffer.from(key), value, headers: made.headers!, appendedAt: noon };
};
const bytesOf = <T>(topic: Topic<T>, data: T): Buffer =>
  Buffer.from(
    wire.encode(topic, recorded(topic, data, { at: noon - SECOND, receivedAt: noon }), {
      topic: topic.name,
      partition: 0,
      offset: 1,
    }),
  );
const reentry = (message: InputMessage) => reentryOf(wire, message, ROOT, undefined);
const back = async <T>(stage: string, topic: Topic<T>, data: T) => {
  const value = bytesOf(topic, data);
  const message = await reentry(kept(stage, topic.name, value));
  if (typeof message === "string") throw new Error(message);
  expect(message.headers).toMatchObject({ [letterHeaders.letter]: ROOT, traceparent: "00-ab" });
  return { ...message, isSame: value.equals(message.value!), key: String(message.key) };
};

describe("a letter of", () => {
  const event = purchase({ did: "d9" });
  const asReceived = async (message: {
    readonly topic: string;
    readonly value: Buffer | null;
    readonly key: string;
  }) => {
    expect([message.topic, message.key]).toEqual(["events.raw", "7:d9"]);
    const { id, at, receivedAt, data } = wire.decode(topics.eventsRaw, message.value, {
      topic: "events.raw",
      partition: 0,
      offset: 5,
    });
    expect([id, at, receivedAt, data]).toEqual([event.event_id, noon - SECOND, noon, event]);
  };
  test("events.raw goes back as it is", async () =>
    expect(await back("enrich", topics.eventsRaw, event)).toMatchObject({
      topic: "events.raw",
      isSame: true,
      key: "k",
    }));
  test(
    "a stage that is hosted alone goes back as the event that an edge took: same id, times and " + "content",
    async () => {
      await asReceived(await back("score", topics.eventsEnriched, enriched(event)));
      await asReceived(await back("attribute", topics.eventsScored, scored(event)));
    },
  );
  test(
    "a stage that is fused with others says where the log was read, and holds what the topic between " + "them would",
    async () => {
      const value = bytesOf(topics.eventsScored, scored(event));
      const message = await reentry(kept("attribute", "events.scored", value, "k", "events.raw"));
      if (typeof message === "string") throw new Error(message);
      await asReceived({ ...message, key: String(message.key) });
    },
  );
  test("a sink of events is decided again", async () =>
    asReceived(await back("analytics", topics.eventsAttributed, attributed(event))));
  test(
    "a row that a decision or a second copy had changed goes back itself: the event alone would not " +
      "bring the change",
    async () =>
      expect(await back("analytics", topics.eventsAttributed, attributed(event, { version: 2 }))).toMatchObject({
        topic: "events.attributed",
        isSame: true,
      }),
  );
  test("a sale that was claimed is claimed again by its event", async () =>
    asReceived(await back("settle", topics.claims, claim({ attributed: attributed(event) }))));
  test("a decision and a conversion are no events and go back to where they came from", async () => {
    const decision = claim({ kind: "decision" });
    expect(await back("settle", topics.claims, decision)).toMatchObject({ topic: "claims", isSame: true, key: "k" });
    expect(await back("commission", topics.conversions, conversion())).toMatchObject({
      topic: "conversions",
      isSame: true,
    });
    expect(await back("conversions", topics.conversions, conversion())).toMatchObject({
      topic: "conversions",
      isSame: true,
    });
  });
  test.each([null, Buffer.alloc(0), Buffer.from([0]), Buffer.from("not a record of ours")])(
    "unreadable bytes go back as they are: %s",
    async (value) => {
      for (const { name } of letterSources)
        expect(await reentry(kept("settle", name, value))).toMatchObject({ topic: name, value, key: Buffer.from("k") });
    },
  );
  test("somebody who was erased goes nowhere", async () => {
    const hides = hidesOf([{ client_id: event.client_id, kind: "did", subject: "d9", since: noon + SECOND }]);
    for (const [stage, topic, data] of [
      ["enrich", topics.eventsRaw, event],
      ["score", topics.eventsEnriched, enriched(event)],
      ["analytics", topics.eventsAttributed, attributed(event, { version: 2 })],
      ["settle", topics.claims, claim({ attributed: attributed(event) })],
      ["settle", topics.claims, claim({ attributed: attributed(event), kind: "decision" })],
    ] as const)
      expect(await reentryOf(wire, kept(stage, topic.name, bytesOf(topic as Topic<any>, data)), ROOT, hides)).toBe(
        "erased",
      );
  });
  test("a letter that no node of the pipeline reads has no way back", async () => {
    expect(await reentry({ offset: 0, key: null, value: Buffer.from("x"), headers: {}, appendedAt: noon })).toBe(
      "no_way_back",
    );
    expect(await reentry(kept("x", "operations", Buffer.from("x")))).toBe("no_way_back");
  });
});

describe("a failure", () => {
  const place = { topic: "pixel.dlq", partition: 1, offset: 8 };
  const rooted = { [letterHeaders.letter]: ROOT };
  test("names the event and its client, where the record can be read", async () =>
    expect(
      await failureOf(
        wire,
        kept("analytics", "events.attributed", bytesOf(topics.eventsAttributed, attributed())),
        place,
        noon + 5,
      ),
    ).toMatchObject({
      kind: "pixel",
      stage: "analytics",
      code: "c",
      message: "m",
      event_id: received().event_id,
      client_id: 7,
      source: { topic: "events.attributed", partition: 3, offset: 17 },
      kept: place,
      first_failed_at: noon,
      failed_at: noon + 5,
    }));
  test("of unreadable bytes has no subject", async () =>
    expect(await failureOf(wire, kept("enrich", "events.raw", Buffer.from("x")), place, noon)).toMatchObject({
      subject: null,
      event_id: null,
      client_id: null,
    }));
  test("has the root of its place and bytes, or the one that it carries", async () => {
    const first = kept("enrich", "events.raw", Buffer.from("x"));
    const { root } = await failureOf(wire, first, place, noon);
    expect((await failureOf(wire, first, { ...place, offset: 99 }, noon + 9)).root).toBe(root);
    expect((await failureOf(wire, kept("enrich", "events.raw", Buffer.from("y")), place, noon)).root).not.toBe(root);
    const carrying = { ...first, headers: { ...first.headers, [letterHeaders.letter]: ROOT } };
    expect((await failureOf(wire, carrying, place, noon)).root).toBe(ROOT);
    const forged = { ...first, headers: { ...first.headers, [letterHeaders.letter]: "'; drop" } };
    expect((await failureOf(wire, forged, place, noon)).root).toBe(root);
  });
  test("of a retry keeps its bytes where its first letter does, in whichever order both are read", async () => {
    const first = kept("pixel", "events.raw", Buffer.from("sealed:"), "k", "none");
    const naming = (text: string) => ({
      ...first,
      value: null,
      headers: { ...first.headers, [letterHeaders.letter]: ROOT, [letterHeaders.first]: text },
    });
    const second = { topic: "pixel.dlq", partition: 0, offset: 3 };
    const failed = await failureOf(wire, naming("pixel.dlq/1@8"), second, noon);
    expect([failed.kept, failed.source]).toEqual([place, second]);
    const before = await failureOf(wire, { ...first, headers: { ...first.headers, ...rooted } }, place, noon);
    for (const order of [
      [before, failed],
      [failed, before],
    ]) {
      const { letters } = indexFailures({ letters: [], failures: new Set() }, order, () => 0);
      expect(letters.map((letter) => letter.kept)).toEqual([place]);
    }
    for (const forged of ["events.raw/0@1", "pixel.dlq/1", "pixel.dlq/-1@2", "x.dlq/0@1", ""])
      expect((await failureOf(wire, naming(forged), second, noon)).kept).toEqual(second);
  });
  test("of two versions of one row has two subjects, of one event on two ways one", async () => {
    const subject = async (stage: string, topic: Topic<any>, data: unknown) =>
      (await failureOf(wire, kept(stage, topic.name, bytesOf(topic, data)), place, noon)).subject;
    const [one, two] = [
      await subject("analytics", topics.eventsAttributed, attributed()),
      await subject("analytics", topics.eventsAttributed, attributed({}, { version: 2 })),
    ];
    expect(one).toBe(uuidOf("event", received().event_id));
    expect(two).not.toBe(one);
    expect(await subject("score", topics.eventsEnriched, enriched())).toBe(one);
  });
  test("is made of a record that says nothing, and of one that says nonsense", async () => {
    const silent = { key: null, value: null, headers: {} };
    expect(await failureOf(wire, silent, place, noon)).toMatchObject({
      stage: "unknown",
      code: "foreign_record",
      source: place,
      first_failed_at: noon,
    });
    const absurd = {
      ...silent,
      headers: {
        [letterHeaders.topic]: "events.raw",
        [letterHeaders.partition]: "4294967296",
        [letterHeaders.offset]: "-1",
        [letterHeaders.message]: "a\0b",
        [letterHeaders.firstFailedAt]: "soon",
      },
    };
    expect(await failureOf(wire, absurd, place, noon)).toMatchObject({
      source: place,
      message: "ab",
      first_failed_at: noon,
    });
  });
});

test("a person reads the record, or its bytes", async () => {
  expect(await shownOf(wire, kept("enrich", "events.raw", bytesOf(topics.eventsRaw, received())))).toMatchObject({
    record: { id: received().event_id, data: { t: "page_view" } },
    hex: null,
  });
  expect(await shownOf(wire, kept("enrich", "events.raw", Buffer.from([0, 255])))).toEqual({
    record: null,
    hex: "00ff",
    bytes: 2,
  });
});
