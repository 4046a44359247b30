// The rows of a file reach the log in batches, and a file without rows does not hide its reader.
import { expect, test } from "vitest";
import { BadFile, readHead } from "../../modules/intake/imports/csv/csv-head.ts";
import { batches, csvLines } from "../../modules/intake/imports/csv/csv-lines.ts";

const MIB = 1024 * 1024;
const batchesOf = async (chunks: readonly (Buffer | string)[]) => {
  const pieces = async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk);
  };
  const found: { rows: number; offset: number; line: number; blank?: number }[] = [];
  for await (const { lines, next } of batches(csvLines(pieces(), { offset: 0, line: 1 }, ",")))
    found.push({ rows: lines.length, ...next });
  return found;
};

test("a batch has 1,000 rows, and the last one the rest", async () => {
  expect(await batchesOf(["a\n".repeat(2_300)])).toEqual([
    { rows: 1_000, offset: 2_000, line: 1_001, blank: 0 },
    { rows: 1_000, offset: 4_000, line: 2_001, blank: 0 },
    { rows: 300, offset: 4_600, line: 2_301, blank: 0 },
  ]);
});

test("blank lines bring a batch after every 16 MiB, so that a cancel is seen", async () => {
  const blank = Buffer.alloc(MIB, "\n");
  expect(await batchesOf(["a\n", ...Array.from({ length: 33 }, () => blank), "b\n"])).toEqual([
    { rows: 1, offset: 16 * MIB + 2, line: 16 * MIB + 2, blank: 16 * MIB },
    { rows: 0, offset: 32 * MIB + 2, line: 32 * MIB + 2, blank: 32 * MIB },
    { rows: 1, offset: 33 * MIB + 4, line: 33 * MIB + 3, blank: 33 * MIB },
  ]);
});

test("blank lines behind the last row are read to their end, and so counted", async () => {
  expect(await batchesOf([`${"a\n".repeat(1_000)}\n\n`, "\n"])).toEqual([
    { rows: 1_000, offset: 2_000, line: 1_001, blank: 0 },
    { rows: 0, offset: 2_003, line: 1_004, blank: 3 },
  ]);
});

test("a row without an end brings them too, and is read again from its beginning after a stop", async () => {
  const long = Buffer.alloc(MIB, "x");
  expect(await batchesOf(["a\n", ...Array.from({ length: 17 }, () => long), "\nb\n"])).toEqual([
    { rows: 1, offset: 2, line: 2, blank: 0 },
    { rows: 2, offset: 17 * MIB + 5, line: 4, blank: 0 },
  ]);
});

test("a file of blank lines is refused after its first MiB, and a head below a few of them is read", async () => {
  let read = 0;
  const file = async function* (first: string) {
    for (yield Buffer.from(first); ; read += MIB) yield Buffer.alloc(MIB, "\n");
  };
  await expect(readHead(file("\n"), null)).rejects.toThrow(BadFile);
  expect(read).toBeLessThanOrEqual(2 * MIB);
  const { next } = await readHead(file("\n\norder_id,revenue,product_id,quantity,ts\n"), null);
  expect(next).toEqual({ offset: 42, line: 4, blank: 2 });
});
