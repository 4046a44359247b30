// A record of the log in print, and the forms of the target of a rewind.
import { describe, expect, test } from "vitest";
import { planOperation } from "../../apps/api/contract/system/operations.ts";
import { operationsIn } from "../../apps/cli/commands/running/look.ts";
import { momentOf, rewindToOf, spanOf } from "../../apps/cli/moments.ts";
import { clientIdOf, readable, withAmounts } from "../../apps/cli/readable.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { PlacedMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";

const wire = inMemoryWire(Object.values(topics));
const operation = {
  operation_id: "op_1",
  kind: "rewind",
  phase: "started",
  actor: "ada@example.com",
  target: "tributary.settle",
  reason: null,
  detail: "{}",
};
const written = wire.encode(
  topics.operations,
  {
    id: "op_1",
    key: "ada@example.com",
    at: 0,
    receivedAt: 0,
    position: { topic: "operations", partition: 0, offset: 0 },
    data: operation,
  },
  null,
);
const seen = (more: Partial<PlacedMessage>): PlacedMessage => ({
  topic: "operations",
  partition: 0,
  offset: 7,
  appendedAt: 1_000,
  key: Buffer.from("ada@example.com"),
  value: written,
  headers: {},
  ...more,
});

describe("a record", () => {
  test("is shown with its place, its key and its event", async () =>
    expect(await readable(wire, seen({}))).toMatchObject({
      topic: "operations",
      offset: 7,
      appended_at: "1970-01-01T00:00:01.000Z",
      key: "ada@example.com",
      event: { id: "op_1", data: operation },
    }));

  test("of a dead-letter topic is read as what its stage was given, with its headers", async () => {
    const headers = {
      [letterHeaders.topic]: Buffer.from("operations"),
      [letterHeaders.code]: Buffer.from("refused_by_store"),
    };
    const letter = await readable(wire, seen({ topic: "s2s.dlq", headers }));
    expect(letter.headers).toEqual({ [letterHeaders.topic]: "operations", [letterHeaders.code]: "refused_by_store" });
    expect(letter.event?.data).toEqual(operation);
  });

  test("that is unreadable is shown as bytes, with the reason", async () => {
    expect((await readable(wire, seen({ value: Buffer.from("no avro") }))).unreadable).toEqual({
      why: expect.stringContaining("byte 0"),
      bytes: 7,
      hex: Buffer.from("no avro").toString("hex"),
    });
    expect((await readable(wire, seen({ value: null }))).unreadable?.bytes).toBe(0);
    const foreign = Buffer.concat([Buffer.from([0, 0, 0, 3, 231]), written.subarray(5)]);
    expect((await readable(wire, seen({ value: foreign }))).unreadable?.why).toContain("999");
  });

  test("shows money in the digits of its currency, wherever it stands", () =>
    expect(
      withAmounts({
        entry: { currency: "MXN", amount_minor: 123_456n, lines: [{ minor: -5n }, { minor: 7n, currency: "JPY" }] },
        other_minor: 3n,
      }),
    ).toEqual({
      entry: {
        currency: "MXN",
        amount_minor: "1234.56 MXN",
        lines: [{ minor: "-0.05 MXN" }, { minor: "7 JPY", currency: "JPY" }],
      },
      other_minor: "3",
    }));

  test("belongs to a client wherever its type keeps it", () => {
    const of = (data: unknown, key: string | null = null) =>
      clientIdOf({
        topic: "t",
        partition: 0,
        offset: 0,
        appended_at: "",
        key,
        event: { id: "", at: "", received_at: "", data },
      });
    expect([
      of({ client_id: 4 }),
      of({ event: { client_id: 5 } }),
      of({ attributed: { event: { client_id: 6 } } }),
    ]).toEqual([4, 5, 6]);
    expect([of({}, "7:device"), of({}, "ada")]).toEqual([7, null]);
  });
});

test("one unreadable record of the audit hides no other", async () => {
  const foreign = Buffer.concat([Buffer.from([0, 0, 0, 3, 231]), written.subarray(5)]);
  const records = [written, Buffer.from("no avro"), foreign, written].map((value, offset) => seen({ offset, value }));
  const warnings: string[] = [];
  const found = await operationsIn(wire, records, (text) => void warnings.push(text));
  expect(found).toEqual([
    { at: 0, operation },
    { at: 0, operation },
  ]);
  expect(warnings).toEqual([
    expect.stringMatching(/^passed over: operations\/0@1: .*byte 0/),
    expect.stringMatching(/^passed over: operations\/0@2: .*999/),
  ]);
});

describe("where to go back to", () => {
  const now = Date.parse("2026-11-21T17:00:00Z");
  test("is a time, a time ago, an offset or the beginning", () => {
    expect(rewindToOf("2026-11-21T08:05-06:00", now)).toEqual({ kind: "time", at: Date.parse("2026-11-21T14:05:00Z") });
    expect(rewindToOf("-2h", now)).toEqual({ kind: "time", at: now - 7_200_000 });
    expect(rewindToOf("offset:17", now)).toEqual({ kind: "offset", offset: 17 });
    expect(rewindToOf("earliest", now)).toEqual({ kind: "earliest" });
  });
  test.each(["14:05", "2026-11-21T14:05", "2026-11-21", "2h", "-2", "offset:-1", "latest", ""])(
    "is not %j: nothing is guessed",
    (text) => expect(() => rewindToOf(text, now)).toThrow("is not a time; give it with its zone"),
  );
  test("is not to come", () => expect(() => rewindToOf("2026-11-21T17:01Z", now)).toThrow("has not come yet"));
  test("is none before 1970, which the broker would take for its end or its beginning", () => {
    for (const text of ["1969-12-31T23:59:59.999Z", "-30000d"])
      expect(() => momentOf("--to", text, now), text).toThrow("lies before 1970");
    for (const from of ["1969-12-31T23:59:59.999Z", "1969-12-31T19:00:00-04:00"])
      expect(planOperation.body.safeParse({ move: "rewind", target: "settle", from, reason: "x" }).success).toBe(false);
    const first = { move: "replay", from: "1970-01-01T00:00:00Z", reason: "x" };
    expect(planOperation.body.safeParse(first).data).toEqual({ ...first, from: 0 });
  });
  test("names its flag when it is wrong", () =>
    expect(() => momentOf("--since", "soon", now)).toThrow("--since: soon"));
});

test("spans are printed in the unit that fits", () =>
  expect([41.6, 180, 18_000].map(spanOf)).toEqual(["42 s", "3 min", "5 h"]));
