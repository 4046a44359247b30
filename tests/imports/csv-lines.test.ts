// A CSV file becomes rows with line numbers, for any content in pieces of any size.
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { type CsvLine, type CsvPiece, cellsIn, csvLines } from "../../modules/intake/imports/csv/csv-lines.ts";

const START = { offset: 0, line: 1 };
const piecesOf = async (file: Buffer, piece: number, from: CsvLine["next"]): Promise<CsvPiece[]> => {
  const pieces = async function* () {
    for (let at = from.offset; at < file.length; at += piece) yield file.subarray(at, at + piece);
  };
  const found: CsvPiece[] = [];
  for await (const one of csvLines(pieces(), from, ",")) found.push(one);
  return found;
};
const readAll = async (file: Buffer, piece = file.length || 1, from: CsvLine["next"] = START): Promise<CsvLine[]> =>
  (await piecesOf(file, piece, from)).flatMap(({ lines }) => lines);
const shown = (lines: readonly CsvLine[]) =>
  lines.map(({ line, text, fault }) => `${line}:${fault?.code ?? cellsIn(text, ",").join("|")}`);
const readText = async (text: string, piece?: number) => shown(await readAll(Buffer.from(text), piece));

test.each([
  ["lines end with LF, CR LF, or the end of the file", "a,b\r\nc,d\ne,f", ["1:a|b", "2:c|d", "3:e|f"]],
  ["blank lines are none, and count as lines", "a\n\r\n\nb\n", ["1:a", "4:b"]],
  ["quotes hold separators, quotes and lines", 'a,"b,""c""\nd"\ne,f', ['1:a|b,"c"\nd', "3:e|f"]],
  ["empty cells stay", ',\n"",""\na,', ["1:|", "2:|", "3:a|"]],
  ["a quote within a cell is a quote", 'a,5" pipe\nb', ['1:a|5" pipe', "2:b"]],
  ["behind a closing quote nothing follows", 'a,"b"c\nd,e', ["1:bad_quote", "2:d|e"]],
  [
    "a quote that is never closed costs its line alone",
    'a,b\n"c,d\ne,f\ng,h',
    ["1:a|b", "2:unclosed_quote", "3:e|f", "4:g|h"],
  ],
  ["a quoted cell at the end of a CR LF line", '"a","b"\r\n"c","d"\r\n', ["1:a|b", "2:c|d"]],
])("%s", async (_, text, rows) => {
  for (const piece of [1, 2, 3, 7, text.length])
    expect(await readText(text, piece), `pieces of ${piece}`).toEqual(rows);
});

test("blank lines are counted, also behind the last row, and wherever reading goes on", async () => {
  const file = Buffer.from('\n\r\na,b\n\n\n\r\n\'c\n"d\n\n"\ne\n\r\n\n\r');
  for (const piece of [1, 2, 3, 7, file.length]) {
    expect((await piecesOf(file, piece, START)).at(-1)!.next, `pieces of ${piece}`).toMatchObject({ blank: 8 });
    const [first] = await readAll(file, piece);
    expect(first!.next).toEqual({ offset: 7, line: 4, blank: 2 });
    expect((await piecesOf(file, piece, first!.next)).at(-1)!.next).toMatchObject({ blank: 8 });
  }
});

test("a row that is too long, or no text, is refused alone, and its lines are counted", async () => {
  const long = "x".repeat(200_000);
  const columns = ",".repeat(100_000);
  const file = Buffer.concat([
    Buffer.from(`a\n${long}\nb\n"${long}\n${long}"\nc\n`),
    Buffer.from([0xff, 0x0a]),
    Buffer.from(`d\0\n${columns}\ne\n`),
  ]);
  const rows = ["1:a", "2:row_too_long", "3:b", "4:row_too_long", "5:row_too_long", "6:c", "7:bad_text", "8:bad_text"];
  for (const piece of [1_000, 65_536, file.length])
    expect(shown(await readAll(file, piece))).toEqual([...rows, "9:row_too_long", "10:e"]);
});

test("reading goes on behind any row as if it had never stopped, whatever the file holds", async () => {
  const bytes = fc.array(fc.constantFrom(...Buffer.from('ab",\r\n\0é'), ...Buffer.from('"\n,')), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(bytes, fc.integer({ min: 1, max: 9 }), async (given, piece) => {
      const file = Buffer.from(given);
      const whole = await readAll(file);
      expect(await readAll(file, piece)).toEqual(whole);
      for (const [n, { next }] of whole.entries()) expect(await readAll(file, piece, next)).toEqual(whole.slice(n + 1));
      let read = 0;
      for (const { lines, next } of await piecesOf(file, piece, START)) {
        read += lines.length;
        expect(await readAll(file, piece, next)).toEqual(whole.slice(read));
      }
      const last = whole.at(-1)?.next;
      if (last !== undefined) expect(last.offset).toBeLessThanOrEqual(file.length);
    }),
    { numRuns: 500 },
  );
});

test.each([
  ["line feeds", "\n"],
  ["rows of one letter", "a\n"],
  ["rows of one quote", '"\n'],
  ["rows of an empty quoted cell", '""\n'],
])("a piece of %s is searched once, not once a row", async (_, row) => {
  const file = Buffer.alloc(512 * 1024, row);
  let searched = 0;
  const { indexOf } = Buffer.prototype;
  const spy = vi.spyOn(Buffer.prototype, "indexOf").mockImplementation(function (this: Buffer, ...given) {
    const found = indexOf.apply(this, given as Parameters<Buffer["indexOf"]>);
    searched += (found < 0 ? this.length : found + 1) - Number(given[1] ?? 0);
    return found;
  });
  try {
    await readAll(file);
  } finally {
    spy.mockRestore();
  }
  expect(searched).toBeLessThan(4 * file.length);
});

test("what RFC 4180 writes is read back as it was", async () => {
  const cell = fc.string({ unit: fc.constantFrom("a", '"', ",", "\n", "\r", " ", "é"), maxLength: 6 });
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(cell, { minLength: 2, maxLength: 3 }), { maxLength: 5 }), async (rows) => {
      const file = Buffer.from(rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join(""));
      const read = (await readAll(file, 5)).map(({ text }) => cellsIn(text, ","));
      expect(read).toEqual(rows);
    }),
  );
});
