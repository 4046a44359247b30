// Rows as a block in ClickHouse's Native format. tests/contracts/native.test.ts proves that the
// store reads them back.
import fc from "fast-check";
import { expect, test } from "vitest";
import { Block } from "../../infra/clickhouse/block.ts";
import { type NativeColumn, type NativeType, NotOfColumn, nativeBlocks } from "../../infra/clickhouse/native.ts";
import { classify } from "../../infra/runtime/errors.ts";

const columnsOf = (...types: readonly NativeType[]): readonly NativeColumn[] =>
  types.map((type, n) => ({ name: `c${n}`, type }));
const bytesOf = (type: NativeType, ...values: readonly unknown[]) => {
  const { bytes } = nativeBlocks(columnsOf(type))(
    values.map((value) => [value]),
    new Block(1),
  );
  // The bytes after the counts of columns and rows, the name and the type.
  return [...bytes.subarray(2 + 3 + 1 + type.length)];
};

test("columns that are null in every row are left out, the others keep their order", () => {
  const write = nativeBlocks(columnsOf("UInt8", "Nullable(String)", "Nullable(String)"));
  const rows = [
    [1, null, null],
    [2, null, "x"],
  ];
  expect(write(rows, new Block()).columns).toEqual(["c0", "c2"]);
});

test(
  "a value is written as the store keeps it: the lowest byte first, a text behind its length, " +
    "nulls marked before the values",
  () => {
    expect(bytesOf("UInt16", 258)).toEqual([2, 1]);
    expect(bytesOf("Int64", "-2")).toEqual([254, 255, 255, 255, 255, 255, 255, 255]);
    expect(bytesOf("DateTime64(3, 'UTC')", -1)).toEqual([255, 255, 255, 255, 255, 255, 255, 255]);
    expect(bytesOf("UUID", "00010203-0405-8607-8809-0a0b0c0d0e0f")).toEqual([
      7, 134, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 136,
    ]);
    expect(bytesOf("Nullable(Bool)", true, null)).toEqual([0, 1, 1, 0]);
    expect(bytesOf("Array(String)", ["a"], [], ["b", "é"])).toEqual([
      ...[1, 0, 0, 0, 0, 0, 0, 0],
      ...[1, 0, 0, 0, 0, 0, 0, 0],
      ...[3, 0, 0, 0, 0, 0, 0, 0],
      ...[1, 97, 1, 98, 2, 195, 169],
    ]);
  },
);

test("a text of any length and any characters stands as UTF-8 behind its length in bytes", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 200 }),
    fc.string({ unit: "binary", maxLength: 20_000 }),
  );
  fc.assert(
    fc.property(text, (given) => {
      const written = Buffer.from(bytesOf("String", given));
      const utf8 = Buffer.from(given);
      const head = written.length - utf8.length;
      expect(written.subarray(head).equals(utf8)).toBe(true);
      expect([...written.subarray(0, head)].reduce((sum, byte, n) => sum + (byte & 0x7f) * 128 ** n, 0)).toBe(
        utf8.length,
      );
    }),
  );
});

test("a value that its column cannot hold is refused with the column, and the row is at fault", () => {
  const refused: readonly (readonly [NativeType, unknown])[] = [
    ["UInt8", 256],
    ["UInt8", 1.5],
    ["UInt32", -1],
    ["UInt32", null],
    ["Int32", "7"],
    ["Int64", "9223372036854775808"],
    ["Int64", "1.5"],
    ["UUID", "00010203-0405-8607-8809-0a0b0c0d0e0g"],
    ["UUID", "00010203"],
    ["Bool", 1],
    ["String", 7],
    ["Array(String)", [7]],
    ["Nullable(UInt16)", 65_536],
  ];
  for (const [type, value] of refused) {
    const attempt = () =>
      nativeBlocks(columnsOf("UInt8", type))(
        [
          [1, value],
          [1, value === null ? 1 : null],
        ],
        new Block(),
      );
    expect(attempt, `${type} ${value}`).toThrow(NotOfColumn);
    expect(attempt).toThrow(`column c1 holds ${type}, not `);
  }
  expect(classify(new NotOfColumn("c", "UInt8", 256))).toBe("data");
});

test("a block that was used before holds nothing of what it held", () => {
  const write = nativeBlocks(columnsOf("String", "UInt32"));
  const block = new Block(1);
  write([["a long text that made the block grow", 1]], block);
  expect(Buffer.from(write([["b", 2]], block).bytes)).toEqual(Buffer.from(write([["b", 2]], new Block()).bytes));
});
