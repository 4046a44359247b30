// A list whose count was altered is refused at the end of its bytes, for every way of reading it.
import fc from "fast-check";
import { expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { UnreadableRecord } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { attributed, recorded } from "../support/builders.ts";

const BILLIONS = 2 ** 40;
/** A time limit that every honest read meets, and that a read without an end does not. */
const SOON_MS = 2_000;
const long = typeOf("long" as never);
const record = (...fields: readonly object[]) => typeOf({ type: "record", name: "R", fields } as never);
const list = (name: string, items: unknown) => ({ name, type: { type: "array", items } });
const within = <T>(read: () => T): T => {
  const begun = performance.now();
  const answer = read();
  expect(performance.now() - begun).toBeLessThan(SOON_MS);
  return answer;
};

/** Bytes of items, among them endless varints: beyond 2^1024 avsc no longer reads a number. */
const items = fc.oneof(
  fc.uint8Array({ maxLength: 50 }),
  fc.integer({ min: 140, max: 170 }).map((length) => Buffer.concat([Buffer.alloc(length, 0x80), Buffer.of(0)])),
);

test("a list of any items, or a map, ends with its bytes, in one block or with the size of its block", () => {
  const text = record(list("texts", "string"));
  const nested = record(list("lists", { type: "array", items: "long" }));
  const rows = record(list("rows", { type: "record", name: "Row", fields: [{ name: "n", type: ["null", "int"] }] }));
  const named = record({ name: "named", type: { type: "map", values: "bytes" } });
  fc.assert(
    fc.property(
      fc.constantFrom(text, nested, rows, named),
      fc.integer({ min: 1_000, max: BILLIONS }),
      fc.boolean(),
      items,
      (type, count, isSized, given) => {
        const head = isSized ? [long.toBuffer(-count), long.toBuffer(7)] : [long.toBuffer(count)];
        const bytes = Buffer.concat([...head, given]);
        let offset = -1;
        // The items may be refused before the end is reached.
        within(() => {
          try {
            ({ offset } = type.decode(bytes, 0));
          } catch {}
        });
        expect(offset).toBe(-1);
      },
    ),
  );
});

test("a list that is skipped, for no reader's field takes it, ends with its bytes too", () => {
  const written = record(list("gone", "long"), { name: "n", type: "int" });
  const reader = record({ name: "n", type: "int" });
  const resolver = reader.createResolver(written);
  expect(reader.decode(written.toBuffer({ gone: [1, 2, 3], n: 7 }), 0, resolver).value).toMatchObject({ n: 7 });
  expect(within(() => reader.decode(Buffer.concat([long.toBuffer(BILLIONS), Buffer.of(2, 4)]), 0, resolver))).toEqual({
    value: undefined,
    offset: -1,
  });
});

test("an event with such a list is unreadable for good, where it is decoded and where it is viewed", () => {
  const topic = topics.eventsAttributed;
  const wire = inMemoryWire([topic]);
  const warning = "an-unusual-warning";
  const event = recorded(topic, attributed({ warnings: [warning] }));
  const value = Buffer.from(wire.encode(topic, event, event.position));
  const at = value.indexOf(warning) - 2;
  expect(value[at]).toBe(2);
  const altered = Buffer.concat([value.subarray(0, at), long.toBuffer(BILLIONS), value.subarray(at + 1)]);
  const read = { topic: topic.name, partition: 0, offset: 0 };
  for (const one of [wire.decode, wire.view]) {
    expect(one(topic, value, read).data.event.warnings).toEqual([warning]);
    expect(() => within(() => one(topic, altered, read))).toThrow(UnreadableRecord);
  }
});
