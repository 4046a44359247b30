// Faster writing gives the same bytes: strings against Avro's plain encoding, and records that are
// passed on against records that are written again.
import type avro from "avsc";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";

const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  let zigzag = value * 2;
  for (; zigzag >= 0x80; zigzag = Math.floor(zigzag / 0x80)) bytes.push((zigzag & 0x7f) | 0x80);
  return Buffer.from([...bytes, zigzag]);
};
const encode = (type: avro.Type, value: unknown, into: Buffer, at: number): Buffer | null => {
  const end = type.encode(value, into, at);
  return end < 0 ? null : into.subarray(at, end);
};

describe("a string", () => {
  const text = typeOf({ type: "string" });
  const any = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 100 }),
    fc.string({ unit: "grapheme-ascii", maxLength: 100 }),
    fc
      .tuple(fc.string({ unit: "grapheme", maxLength: 3 }), fc.integer({ min: 1, max: 9_000 }))
      .map(([one, times]) => one.repeat(times)),
  );
  test("is its length in bytes and its UTF-8, whatever it holds and wherever it stands", () => {
    fc.assert(
      fc.property(any, fc.nat(70_000), (value, at) => {
        const utf8 = Buffer.from(value);
        const written = encode(text, value, Buffer.alloc(at + utf8.length + 5), at);
        expect(written?.equals(Buffer.concat([varint(utf8.length), utf8]))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
  test("that does not fit says so, to the byte", () => {
    fc.assert(
      fc.property(any, (value) => {
        const utf8 = Buffer.from(value);
        const needed = varint(utf8.length).length + utf8.length;
        expect(encode(text, value, Buffer.alloc(needed), 0)?.length).toBe(needed);
        expect(encode(text, value, Buffer.alloc(needed - 1), 0)).toBeNull();
      }),
      { numRuns: 300 },
    );
  });
});

const fields = Array.from({ length: 20 }, (_, n) => ({
  name: `f${n}`,
  type: n % 3 === 0 ? ["null", "string"] : n % 3 === 1 ? "long" : "string",
}));
const wide = { type: "record", name: "Wide", fields };
const outer = (name: string, inner: object) => ({
  type: "record",
  name,
  fields: [
    { name: "wide", type: inner },
    { name: "n", type: "int" },
  ],
});
const wideOf = fc.record(
  Object.fromEntries(
    fields.map(({ name }, n) => [
      name,
      n % 3 === 0 ? fc.option(fc.string()) : n % 3 === 1 ? fc.integer() : fc.string(),
    ]),
  ),
);
/** Types of the unpatched library, which do not know the origin of a record. */
const rewritten = (type: avro.Type, value: object): Buffer => type.toBuffer(structuredClone(value));

describe("a wide record that is passed on", () => {
  const [first, second] = [typeOf(outer("First", wide)), typeOf(outer("Second", wide))];
  test("is the same bytes as one that is written again, in a larger buffer too", () => {
    fc.assert(
      fc.property(wideOf, fc.nat(100), (record, at) => {
        const read = first.fromBuffer(rewritten(first, { wide: record, n: 1 })) as { wide: object };
        const written = encode(second, { wide: read.wide, n: 2 }, Buffer.alloc(10_000), at);
        expect(written?.equals(rewritten(second, { wide: { ...record }, n: 2 }))).toBe(true);
      }),
    );
  });
  test("that does not fit says so, to the byte", () => {
    fc.assert(
      fc.property(wideOf, (record) => {
        const read = first.fromBuffer(rewritten(first, { wide: record, n: 1 })) as { wide: object };
        const needed = rewritten(second, { wide: record, n: 2 }).length;
        expect(encode(second, { wide: read.wide, n: 2 }, Buffer.alloc(needed), 0)?.length).toBe(needed);
        expect(encode(second, { wide: read.wide, n: 2 }, Buffer.alloc(needed - 1), 0)).toBeNull();
      }),
    );
  });
  test("and a copy with something changed is written with the change", () => {
    fc.assert(
      fc.property(wideOf, fc.string(), (record, other) => {
        const read = first.fromBuffer(rewritten(first, { wide: record, n: 1 })) as { wide: object };
        const written = second.toBuffer({ wide: { ...read.wide, f2: other }, n: 2 });
        expect(written.equals(rewritten(second, { wide: { ...record, f2: other }, n: 2 }))).toBe(true);
      }),
    );
  });
  test("looks like any other record", () => {
    fc.assert(
      fc.property(wideOf, (record) => {
        const read = first.fromBuffer(rewritten(first, { wide: record, n: 1 })) as { wide: object };
        expect(Reflect.ownKeys(read.wide)).toEqual(fields.map(({ name }) => name));
        expect({ ...read.wide }).toEqual({ ...record });
      }),
    );
  });
  test("under another schema is written field by field", () => {
    const more = { ...wide, fields: [...fields, { name: "more", type: "string", default: "none" }] };
    const third = typeOf(outer("Third", more));
    fc.assert(
      fc.property(wideOf, (record) => {
        const read = first.fromBuffer(rewritten(first, { wide: record, n: 1 })) as { wide: object };
        const back = third.fromBuffer(third.toBuffer({ wide: read.wide, n: 2 })) as { wide: object };
        expect({ ...back.wide }).toEqual({ ...record, more: "none" });
      }),
    );
  });
  test("when it was written under an older schema is written under today's", () => {
    const more = { ...wide, fields: [...fields, { name: "more", type: "string", default: "none" }] };
    const today = typeOf(outer("First", more));
    const resolver = today.createResolver(first);
    fc.assert(
      fc.property(wideOf, (record) => {
        const read = today.fromBuffer(rewritten(first, { wide: record, n: 1 }), resolver) as { wide: object };
        expect(today.toBuffer(read).equals(rewritten(today, { wide: { ...record, more: "none" }, n: 1 }))).toBe(true);
      }),
    );
  });
});
