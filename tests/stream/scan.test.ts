// A value that is read in place equals the library's reading of the same bytes, for any bytes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";
import { layoutOf, NOWHERE } from "../../infra/avro/scan.ts";
import { viewsOf } from "../../infra/avro/view.ts";
import { schemas } from "../../schemas/generated-avro.ts";
import { type Damage, damage, damaged, plain, valuesOf } from "../support/avro-values.ts";

/** Schemas with every scanned type, in every combination. */
const anySchema = (() => {
  const typed = fc.letrec<{ type: any }>((again) => ({
    type: fc.oneof(
      { maxDepth: 3, depthSize: "small" },
      fc.constantFrom("boolean", "int", "long", "string", { type: "long", logicalType: "minor-units" }),
      fc.constantFrom({ type: "enum", symbols: ["a", "b", "c"] }, { type: "fixed", size: 3 }),
      again("type").map((items) => ({ type: "array", items })),
      fc.array(fc.tuple(again("type"), fc.boolean()), { minLength: 1, maxLength: 5 }).map((types) => ({
        type: "record",
        fields: types.map(([type, isNullable], n) => ({ name: `f${n}`, type: isNullable ? ["null", type] : type })),
      })),
    ),
  })).type;
  let names = 0;
  const withNames = (type: any): any => {
    if (Array.isArray(type)) return type.map(withNames);
    if (typeof type === "string") return type;
    const name = type.type === "array" || type.type === "long" ? {} : { name: `N${names++}` };
    if (type.items !== undefined) return { ...type, items: withNames(type.items) };
    if (type.fields === undefined) return { ...type, ...name };
    return { ...type, ...name, fields: type.fields.map((field: any) => ({ ...field, type: withNames(field.type) })) };
  };
  const record = fc.array(typed, { minLength: 1, maxLength: 6 }).map((types) => ({
    type: "record",
    fields: types.map((type, n) => ({ name: `g${n}`, type })),
  }));
  return record.map(withNames);
})();

/** Both readings of the same bytes; null where they are left to the library. */
const readerOf = (schema: object) => {
  const type = typeOf(schema);
  const layout = layoutOf(schema)!;
  const view = viewsOf(layout.root);
  const places = new Int32Array(layout.width + 2).fill(7);
  const scanned = (bytes: Buffer, start: number, end: number) => {
    const reached = layout.scan(bytes, start, end, places, 1);
    expect([places[0], places.at(-1)]).toEqual([7, 7]);
    if (reached === NOWHERE) return null;
    return { end: reached, view: view(bytes, places, 1) as { toJSON(): object } };
  };
  return { type, scanned };
};
/** Every field through its getter. */
const walked = (schema: any, view: any): any =>
  Object.fromEntries(
    schema.fields.map(({ name, type }: any) => {
      const inner = Array.isArray(type) ? type[1] : type;
      return [name, view[name] !== null && inner.type === "record" ? walked(inner, view[name]) : view[name]];
    }),
  );
const isUsual = (value: unknown): boolean =>
  typeof value === "bigint" || typeof value === "number"
    ? value < 2 ** 52 && value >= -(2 ** 52)
    : typeof value !== "object" || value === null || Object.values(value).every(isUsual);

const provesEqual = (schema: any, value: unknown, before: number, after: number): void => {
  const { type, scanned } = readerOf(schema);
  const written = type.toBuffer(value);
  const bytes = Buffer.concat([Buffer.alloc(before, 0xff), written, Buffer.alloc(after, 0xff)]);
  const read = scanned(bytes, before, before + written.length);
  if (read === null) {
    expect(isUsual(value)).toBe(false);
    return;
  }
  expect(read.end).toBe(before + written.length);
  const decoded = plain(type.fromBuffer(written));
  expect(read.view.toJSON()).toEqual(decoded);
  expect(walked(schema, read.view)).toEqual(decoded);
};

/** Bytes that are not scanned are left to the library, which reads or refuses them. */
const provesHonest = (schema: any, value: unknown, harm: Damage): void => {
  const { type, scanned } = readerOf(schema);
  const bytes = damaged(type.toBuffer(value), harm);
  const read = scanned(bytes, 0, bytes.length);
  if (read === null) return;
  const { value: decoded, offset } = type.decode(bytes, 0);
  expect(offset).toBe(read.end);
  expect(read.view.toJSON()).toEqual(plain(decoded));
};

describe.each(Object.entries(schemas))("a %s", (_, schema) => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(valuesOf(schema), fc.nat(3), fc.nat(3), (value, before, after) =>
        provesEqual(schema, value, before, after),
      ),
      { numRuns: 30 },
    );
  });
  test("that was altered or cut is read as the library reads it, or not at all", () => {
    fc.assert(
      fc.property(valuesOf(schema), damage, (value, harm) => provesHonest(schema, value, harm)),
      { numRuns: 80 },
    );
  });
});

describe("a record of any schema", () => {
  const schemaAndValue = anySchema.chain((schema) => valuesOf(schema).map((value) => ({ schema, value })));
  test("is read as it was written", () => {
    fc.assert(
      fc.property(schemaAndValue, ({ schema, value }) => provesEqual(schema, value, 1, 1)),
      { numRuns: 150 },
    );
  });
  test("that was altered or cut is read as the library reads it, or not at all", () => {
    fc.assert(
      fc.property(schemaAndValue, damage, ({ schema, value }, harm) => provesHonest(schema, value, harm)),
      { numRuns: 300 },
    );
  });
});

describe("what no sender writes is left to the library", () => {
  const listed = { type: "record", name: "Listed", fields: [{ name: "l", type: { type: "array", items: "string" } }] };
  const scan = (schema: object, ...bytes: readonly number[]) =>
    layoutOf(schema)!.scan(Uint8Array.from(bytes), 0, bytes.length, new Int32Array(10), 0);
  test.each([
    ["a list in blocks with their sizes", [1, 2, 2, 97, 0]],
    ["more items than there are bytes", [0xfe, 0xff, 0xff, 0x0f, 2, 97]],
    ["a list without its end", [2, 2, 97]],
    ["a text that is longer than the record", [2, 8, 97]],
    ["a text of a negative length", [2, 1, 0]],
    ["a number without an end", [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]],
  ])("%s", (_, bytes) => expect(scan(listed, ...bytes)).toBe(NOWHERE));
  test("but a list in blocks is read", () => expect(scan(listed, 2, 2, 97, 2, 2, 98, 0)).toBe(7));
  test.each([
    ["a map", { type: "map", values: "int" }],
    ["a union of two things", ["int", "string"]],
    ["a number with a fraction", "double"],
    ["a record in itself", ["null", "Listed"]],
  ])("a schema with %s", (_, type) =>
    expect(layoutOf({ type: "record", name: "Listed", fields: [{ name: "f", type }] })).toBeNull(),
  );
});

test("a record in a record is the same view each time", () => {
  const inner = { type: "record", name: "Inner", fields: [{ name: "n", type: "int" }] };
  const outer = { type: "record", name: "Outer", fields: [{ name: "inner", type: inner }] };
  const layout = layoutOf(outer)!;
  const places = new Int32Array(layout.width);
  const bytes = Buffer.of(14);
  layout.scan(bytes, 0, 1, places, 0);
  const view = viewsOf(layout.root)(bytes, places, 0) as { inner: { n: number } };
  expect(view.inner).toBe(view.inner);
  expect(view.inner.n).toBe(7);
  expect(JSON.stringify(view)).toBe('{"inner":{"n":7}}');
});
