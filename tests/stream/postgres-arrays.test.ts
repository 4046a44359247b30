// Arrays in Postgres' binary form, read back by the driver where it has a reader for them.
import fc from "fast-check";
import pg from "pg";
import { expect, test } from "vitest";
import { BrokenText, bigintArray, bytesArray, columnArrays, intArray, textArray } from "../../infra/postgres/arrays.ts";

/** The items of an array in the form that the server sends (array_send in its arrayfuncs.c). */
const itemsOf = (array: Buffer): { readonly oid: number; readonly items: readonly (Buffer | null)[] } => {
  const oid = array.readInt32BE(8);
  if (array.readInt32BE(0) === 0) {
    expect(array.length).toBe(12);
    return { oid, items: [] };
  }
  expect([array.readInt32BE(0), array.readInt32BE(16)]).toEqual([1, 1]);
  const items: (Buffer | null)[] = [];
  let at = 20;
  for (let n = array.readInt32BE(12); n > 0; n--) {
    const length = array.readInt32BE(at);
    items.push(length < 0 ? null : array.subarray(at + 4, at + 4 + length));
    at += 4 + Math.max(length, 0);
  }
  expect(at).toBe(array.length);
  expect(array.readInt32BE(4)).toBe(items.includes(null) ? 1 : 0);
  return { oid, items };
};

test("texts, bytes and numbers are written item by item with their lengths", () => {
  const few = { maxLength: 20 };
  const [texts, bytes] = [
    fc.array(fc.string({ unit: fc.constantFrom(...'a"\\{,ñ€😀') }), few),
    fc.array(fc.uint8Array(), few),
  ];
  const numbers = fc.array(fc.maxSafeInteger(), few);
  const ints = fc.array(fc.integer(), few);
  fc.assert(
    fc.property(texts, bytes, numbers, ints, (...given) => {
      const found = [textArray(given[0]), bytesArray(given[1]), bigintArray(given[2]), intArray(given[3])].map(itemsOf);
      expect(found).toEqual([
        { oid: 25, items: given[0].map((one) => Buffer.from(one)) },
        { oid: 17, items: given[1].map((one) => Buffer.from(one)) },
        {
          oid: 20,
          items: given[2].map((one) =>
            Buffer.from(BigInt.asUintN(64, BigInt(one)).toString(16).padStart(16, "0"), "hex"),
          ),
        },
        { oid: 23, items: given[3].map((one) => Buffer.from((one >>> 0).toString(16).padStart(8, "0"), "hex")) },
      ]);
    }),
    { numRuns: 50 },
  );
});

test("the driver reads them back", () => {
  const parse = pg.types.getTypeParser(1009 as never, "binary") as unknown as (array: Buffer) => readonly string[];
  expect(parse(textArray(["a", "ñ", "", 'with "quotes", {braces}']))).toEqual([
    "a",
    "ñ",
    "",
    'with "quotes", {braces}',
  ]);
  expect(parse(textArray([]))).toEqual([]);
});

test("each column of the rows is an array of its texts, null where there is nothing", () => {
  const words = fc.string({ unit: fc.constantFrom(...'a"\\{,ñ€😀'), maxLength: 100 });
  const value = fc.oneof(words, fc.integer(), fc.boolean(), fc.constant(null), fc.constant(undefined));
  fc.assert(
    fc.property(fc.array(fc.record({ a: value, b: value }, { requiredKeys: [] }), { maxLength: 20 }), (rows) => {
      const items = (column: "a" | "b") =>
        rows.map((row) => (row[column] === null || row[column] === undefined ? null : Buffer.from(`${row[column]}`)));
      expect(columnArrays(rows, ["a", "b"]).map(itemsOf)).toEqual([
        { oid: 25, items: items("a") },
        { oid: 25, items: items("b") },
      ]);
    }),
  );
});

test("half a character is refused, and not written as another one", () => {
  for (const text of ["\ud83d", "a\ude00b", `${"ñ".repeat(60)}\ud83d`])
    expect(() => columnArrays([{ text }], ["text"])).toThrow(BrokenText);
});
