// A block that is made from the bytes of the log is byte for byte the block of the decoded values,
// or it is not made.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_MINOR } from "../../domain/money.ts";
import { viewOf } from "../../infra/avro/recorded-view.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { Block } from "../../infra/clickhouse/block.ts";
import { type NativeColumn, NotOfColumn, nativeBlocks } from "../../infra/clickhouse/native.ts";
import { type Source, valuesOf } from "../../infra/clickhouse/sources.ts";
import { transcoder } from "../../infra/clickhouse/transcode.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { schemas } from "../../schemas/generated-avro.ts";
import { eventColumns } from "../../sinks/analytics/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { eventSources, events } from "../../sinks/analytics/table.ts";
import type { Position, Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { valuesOf as anyOf, damage, damaged } from "../support/avro-values.ts";
import { attributed, recorded } from "../support/builders.ts";

const { eventsAttributed } = topics;
const wire = inMemoryWire([eventsAttributed]);
const transcode = transcoder(eventColumns, eventSources);
const blockOfValues = nativeBlocks(eventColumns);
const values = valuesOf(eventColumns, eventSources);

/** Byte 0 and the id of the schema. */
const HEAD = 5;
type Event = Recorded<EventAttributed>;
const read: Position = { topic: "events.attributed", partition: 1, offset: 77 };
const written = (data: EventAttributed, origin: Position | null = null): Buffer =>
  wire.encode(eventsAttributed, recorded(eventsAttributed, data, { receivedAt: 1_790_000_000_000 }), origin);
const view = (value: Buffer): Event => wire.view(eventsAttributed, value, read);
const decode = (value: Buffer): Event => wire.decode(eventsAttributed, value, read);

/** The block of the decoded values, or the error that prevents it. */
const slow = (bytes: readonly Buffer[]) => {
  try {
    const { columns, bytes: block } = blockOfValues(
      bytes.map((value) => values(decode(value))),
      new Block(),
    );
    return { columns, bytes: Buffer.from(block) };
  } catch (error) {
    return error;
  }
};
const fast = (bytes: readonly Buffer[]) => {
  const made = transcode(bytes.map(view), new Block());
  return made && { columns: made.columns, bytes: Buffer.from(made.bytes) };
};

const uuid = fc.uuid();
const origin = fc.option(fc.record({ topic: fc.string(), partition: fc.nat(9), offset: fc.nat() }), { freq: 3 });
/** Random events whose values fit into their columns, so that they make a block. */
const storable = fc
  .record({
    data: anyOf(schemas.EventAttributed) as fc.Arbitrary<EventAttributed>,
    ...{ id: uuid, first: fc.option(uuid), origin, value: fc.bigInt({ min: -MAX_MINOR, max: MAX_MINOR }) },
    ...{ few: fc.nat(255), some: fc.nat(65_535), many: fc.nat(2 ** 31 - 1), time: fc.nat(2 ** 42) },
  })
  .map(({ data: { event, enrichment, fraud, credit }, id, first, origin, value, few, some, many, time }) =>
    written(
      {
        event: { ...event, event_id: id, client_id: many, ts: time, consent: few, value_minor: value },
        enrichment: { ...enrichment, consent: some % 256, asn: many, edges: [] },
        fraud: { ...fraud, score: few, hints: few % 2 === 0 ? null : { ...fraud.hints!, address_conversions: few } },
        credit: {
          ...credit,
          ...{ partner_id: many, campaign_id: null, link_id: some, rule_id: few, rule_version: few },
          ...{ clicked_at: few % 3 === 0 ? null : time, window_days: some, reference_as_of: null },
        },
        ...{ version: few, merged_into: first, refunded_minor: null },
      } as EventAttributed,
      origin,
    ),
  );

test("events of any content become the same block", () => {
  let made = 0;
  fc.assert(
    fc.property(fc.array(storable, { minLength: 1, maxLength: 20 }), (bytes) => {
      const block = fast(bytes);
      if (block === null) return;
      made++;
      expect(block).toEqual(slow(bytes));
    }),
    { numRuns: 40 },
  );
  expect(made).toBeGreaterThan(13);
});

test("events that were altered become the same block, or none", () => {
  fc.assert(
    fc.property(storable, damage, (value, harm) => {
      const bytes = Buffer.concat([value.subarray(0, HEAD), damaged(value.subarray(HEAD), harm)]);
      if (viewOf(eventsAttributed)(bytes, HEAD, read) === null) return;
      const block = fast([bytes]);
      if (block !== null) expect(block).toEqual(slow([bytes]));
    }),
    { numRuns: 200 },
  );
});

test("a column that is null in more events than are taken at once is written from its first value on", () => {
  const many = Array.from({ length: 1_000 }, (_, n) =>
    written(
      attributed({ url: n < 700 ? null : `u${n}`, quantity: n === 999 ? 7 : null, warnings: n % 5 ? [] : ["a", "b"] }),
    ),
  );
  const [sooner, later] = [fast(many), fast(many.slice(0, 700))];
  expect(sooner).toEqual(slow(many));
  expect(later).toEqual(slow(many.slice(0, 700)));
  expect(sooner!.columns).toContain("url");
  expect(later!.columns).not.toContain("url");
});

test("no amount that an edge takes makes its sender's neighbours take the slow way", () => {
  const amounts = [MAX_MINOR, -MAX_MINOR, 2n ** 48n, -(2n ** 48n) - 1n];
  const bytes = amounts.map((value_minor) => written(attributed({ value_minor })));
  expect(fast(bytes)).toEqual(slow(bytes));
});

test("bytes that are no UTF-8 become what a reader makes of them", () => {
  const bytes = written(attributed({ url: "a~~z", props: "{}" }));
  bytes.fill(0xff, bytes.indexOf("~~"), bytes.indexOf("~~") + 2);
  expect(fast([bytes])).toEqual(slow([bytes]));
  expect(fast([bytes])!.bytes.includes("a\uFFFD\uFFFDz")).toBe(true);
});

describe("no block comes of", () => {
  const good = written(attributed());
  test.each([
    ["no events", []],
    ["an event that was decoded", [view(good), decode(good)]],
    ["an id that is no UUID", [view(good), view(written(attributed({ event_id: "x" })))]],
    ["a number that is too large", [view(written(attributed({}, { version: -1 })))]],
  ])("%s", (_, given: readonly Event[]) => expect(transcode(given, new Block())).toBeNull());

  test("and the table then says what is wrong, or writes the values", () => {
    const rowsOf = (...given: readonly Event[]) => given.flatMap(eventRows);
    expect(() => events.blockOf(rowsOf(view(written(attributed({ event_id: "x" })))), new Block())).toThrow(
      NotOfColumn,
    );
    const mixed = events.blockOf(rowsOf(view(good), decode(good)), new Block());
    expect(Buffer.from(mixed.bytes)).toEqual((slow([good, good]) as { bytes: Buffer }).bytes);
  });
});

test("what a column cannot hold in any event is said when the first block is made", () => {
  const wrong = (name: string, type: NativeColumn["type"], path: readonly string[]) =>
    transcoder([{ name, type }], { [name]: { path } as Source<any, any> });
  const given = [view(written(attributed()))];
  expect(() => wrong("c", "UInt8", ["event", "did"])(given, new Block())).toThrow("event.did no such value");
  expect(() => wrong("c", "String", ["event", "nothing"])(given, new Block())).toThrow("event.nothing no such value");
  expect(() => wrong("c", "Array(String)", ["fraud", "reasons"])(given, new Block())).toThrow("no such value");
});
