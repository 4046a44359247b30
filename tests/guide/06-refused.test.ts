// Chapter 6: refusals. Unreadable bytes, events that a stage rejects, and code that throws are
// three different cases.

import { describe, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import { drive } from "../../stream/testing/drive.ts";
import type { LoggedMessage } from "../../stream/testing/in-memory-log.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { hourMs, received, recorded } from "../support/builders.ts";
import { clickBefore, pageView, purchase, type Shop, shop } from "../support/shop.ts";
import { rateOf, sent, step, toy, toys } from "../support/toy.ts";

// An edge tells the sender what it refuses (chapter 1). A message in the log has no sender to
// answer, so it is never thrown away: its bytes go unchanged to a dead-letter topic, with headers
// that say where, why and how often, and the partition goes on.

const headersOf = (
  { headers }: LoggedMessage,
  ...names: readonly (keyof typeof letterHeaders)[]
): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, String(headers[letterHeaders[name]])]));
const rawOf = ({ messages }: Shop): readonly LoggedMessage[] => messages(topics.eventsRaw.name);
const sale = purchase({ svc_click_id: clickBefore(hourMs) });

describe("bytes that cannot be read", () => {
  test("are kept as they came, and what stands around them goes on", async () => {
    const made = shop();
    const rubbish = Buffer.from("somebody wrote this by hand");
    await made.post([sale]);
    const { key } = rawOf(made)[0]!;
    await made.sendMessage({ topic: topics.eventsRaw.name, key, value: rubbish });
    await made.post([pageView()]);
    expect(
      made
        .stored()
        .map(({ event }) => event.t)
        .sort(),
    ).toEqual(["page_view", "purchase"]);
    expect(made.messages("s2s.dlq").map(({ value }) => value)).toEqual([rubbish]);
  });

  test("say where they stood, who met them and what is wrong", async () => {
    const made = shop();
    await made.sendMessage({ topic: topics.eventsRaw.name, key: null, value: Buffer.from("no") });
    const [letter] = made.messages("s2s.dlq");
    expect(headersOf(letter!, "topic", "offset", "kind", "stage", "code", "attempt")).toEqual({
      topic: "events.raw",
      offset: "0",
      kind: "s2s",
      stage: "enrich",
      code: "not_framed",
      attempt: "1",
    });
  });

  test("are kept apart from good ones even when a single byte is missing", async () => {
    const made = shop();
    await made.post([pageView()]);
    const { key, value } = rawOf(made)[0]!;
    await made.sendMessage({ topic: topics.eventsRaw.name, key, value: value!.subarray(0, -1) });
    expect(made.messages("s2s.dlq").map((letter) => headersOf(letter, "code"))).toEqual([{ code: "unreadable_body" }]);
  });

  // Where money is decided a value carries the hash of its content, because Avro would not notice a
  // changed digit.
  test("include a claim whose order was altered in the log, although it still reads as a claim", async () => {
    const made = shop();
    await made.post([sale]);
    const { key, value } = made.messages(topics.claims.name)[0]!;
    const altered = Buffer.from(value!.toString("latin1").replaceAll("o1", "o2"), "latin1");
    await made.sendMessage({ topic: topics.claims.name, key, value: altered });
    expect(made.messages("s2s.dlq").map((letter) => headersOf(letter, "stage", "code"))).toEqual([
      { stage: "settle", code: "content_hash_mismatch" },
    ]);
    expect(made.conversions().map(({ order_id }) => order_id)).toEqual(["o1"]);
  });

  // A letter that is sent again and fails again is one letter with a history.
  test("count how often they have been tried", async () => {
    const made = shop();
    const again = async () => {
      const { key, value, headers } = made.messages("s2s.dlq").at(-1)!;
      const kept = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, String(text)]));
      await made.sendMessage({ topic: topics.eventsRaw.name, key, value, headers: kept });
    };
    await made.sendMessage({ topic: topics.eventsRaw.name, key: "7:d1", value: Buffer.from("no") });
    await again();
    await again();
    expect(made.messages("s2s.dlq").map((letter) => headersOf(letter, "attempt").attempt)).toEqual(["1", "2", "3"]);
  });
});

// Letters are sorted by the door of their event, because the team of that door fixes them.

test.each([
  ["link", "clicks.dlq"],
  ["pixel", "pixel.dlq"],
  ["batch", "s2s.dlq"],
])("a dead event from %s lies in %s", (source, letters) =>
  expect(pipeline.deadLetters(recorded(topics.eventsRaw, received({ source })))).toBe(letters),
);

// No stage of this pipeline rejects anything: it can decide whatever its edges let in. Other
// processors may reject, so the rest of this chapter runs on a toy (tests/support/toy.ts): its
// stage `check` rejects negative numbers, drops 13, and has a bug at 666.

const toyed = () => drive(toy, { wire: inMemoryWire, read: rateOf(1) });

describe("an event that a stage rejects", () => {
  test("goes to the dead letters as that stage was given it; its neighbours do not notice", async () => {
    const { send, read, messages } = toyed();
    await send(toys.raw, sent(step("a")), sent(step("b", { worth: -1 })), sent(step("c")));
    expect(read(toys.out).map(({ id }) => id)).toEqual(["a", "c"]);
    const [letter] = messages("toy.dlq");
    expect(headersOf(letter!, "stage", "code")).toEqual({ stage: "check", code: "negative" });
    expect(letter!.value).toEqual(messages("toy.raw")[1]!.value);
  });

  // No event may get lost: each is emitted, dropped or rejected, and the runner counts which, after
  // the offset is committed.
  test("is counted, so that what goes in can be laid beside what comes out", async () => {
    const { send, counts } = toyed();
    await send(toys.raw, ...[2, -1, 13, 4, -7].map((worth, n) => sent(step(`s${n}`, { worth }))));
    const [checked] = counts.flatMap(({ stages }) => stages.filter(({ stage }) => stage === "check"));
    expect(checked).toMatchObject({
      events: 5,
      emitting: 2,
      dropped: new Map([["unlucky", 1]]),
      rejected: new Map([["negative", 2]]),
    });
  });
});

describe("a processor that throws", () => {
  // Then the code is wrong, and later events might be decided wrongly too. A dead letter would hide
  // that. So the worker finishes the events before, stops exactly there, and starts again at the
  // same offset until the code is fixed.
  test(
    "stops its worker at that event: what came before is out, what comes after waits, and no letter " + "is written",
    async () => {
      const { send, read, messages } = toyed();
      const events = [step("before"), step("bad", { worth: 666 }), step("after")].map((one) => sent(one));
      await expect(send(toys.raw, ...events)).rejects.toThrow("check threw: check cannot count");
      expect(read(toys.checked).map(({ id }) => id)).toEqual(["before"]);
      expect(messages("toy.dlq")).toEqual([]);
    },
  );
  test("is met again at the same place, for the offset has not moved", async () => {
    const { send } = toyed();
    await expect(send(toys.raw, sent(step("bad", { worth: 666 })))).rejects.toThrow();
    await expect(send(toys.raw, sent(step("next")))).rejects.toThrow("check threw");
  });
});
