// Reads the head of a CSV file: its separator, and which of its columns are ours.
import type { Columns, UploadColumn } from "../../../../processors/admit/upload/csv-row.ts";
import { purchaseColumns, uploadColumns } from "../../../../processors/admit/upload/csv-row.ts";
import { type CsvLine, cellsIn, csvLines, type Place } from "./csv-lines.ts";

/** Maps our columns to the file's columns where their names differ. */
export type Mapping = Readonly<Partial<Record<UploadColumn, string>>>;

/** Where the rows begin, and the form of their cells. */
export interface Head {
  readonly next: Place;
  readonly delimiter: string;
  /** The names in the file. */
  readonly columns: readonly string[];
  readonly ours: Columns;
}

/** The whole file cannot be imported; the message gives the reason and the fix. */
export class BadFile extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = "BadFile";
    this.code = code;
  }
}

const MOST_COLUMNS = 200;
/** A file that begins with more blank lines than these bytes is refused. */
const MOST_BLANK_BYTES = 1024 * 1024;
const DELIMITERS = [",", ";", "\t"] as const;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Reads no further than the first row. Throws BadFile if the file has no rows, begins with a MiB of
 * blank lines, has too many columns or a duplicate column, or lacks a required one.
 */
export const readHead = async (chunks: AsyncIterable<Buffer>, mapping: Mapping | null): Promise<Head> => {
  const first = await firstLine(chunks);
  if (first === undefined) throw new BadFile("empty_file", "the file has no rows: send a head and rows below it");
  if (first.fault !== null) throw new BadFile(first.fault.code, `line ${first.line}: ${first.fault.message}`);
  const counts = DELIMITERS.map((delimiter) => cellsIn(first.text, delimiter).length);
  const delimiter = DELIMITERS[counts.indexOf(Math.max(...counts))]!;
  const columns = cellsIn(first.text, delimiter).map((name) => name.trim());
  if (columns.length > MOST_COLUMNS)
    throw new BadFile("too_many_columns", `the head has ${columns.length} columns: send at most ${MOST_COLUMNS}`);
  return { next: first.next, delimiter, columns, ours: oursOf(columns, mapping, delimiter) };
};

const firstLine = async (chunks: AsyncIterable<Buffer>): Promise<CsvLine | undefined> => {
  const file = withoutBom(chunks);
  let read = 0;
  for await (const { lines, bytes } of csvLines(file.chunks, { offset: 0, line: 1 }, DELIMITERS.join(""))) {
    const [first] = lines;
    if (first !== undefined) return { ...first, next: { ...first.next, offset: first.next.offset + file.left() } };
    read += bytes;
    if (read > MOST_BLANK_BYTES)
      throw new BadFile("no_head", "the file begins with more than 1 MiB of blank lines: begin it with its head");
  }
  return undefined;
};

/** `left` is the number of skipped bytes, once some were read. */
const withoutBom = (chunks: AsyncIterable<Buffer>) => {
  let start = Buffer.alloc(0);
  let left: number | undefined;
  const begin = (): Buffer => {
    left = start.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
    return start.subarray(left);
  };
  const rest = async function* (): AsyncGenerator<Buffer, void> {
    for await (const chunk of chunks) {
      if (left !== undefined) yield chunk;
      else {
        start = Buffer.concat([start, chunk]);
        if (start.length >= BOM.length) yield begin();
      }
    }
    if (left === undefined) yield begin();
  };
  return { chunks: rest(), left: () => left ?? 0 };
};

const oursOf = (columns: readonly string[], mapping: Mapping | null, delimiter: string): Columns => {
  const ours = new Map<string, UploadColumn>();
  for (const name of uploadColumns) ours.set((mapping?.[name] ?? name).toLowerCase(), name);
  const names = columns.map((column) => ours.get(column.toLowerCase()) ?? null);
  const twice = names.find((name, n) => name !== null && names.indexOf(name) !== n);
  if (twice !== undefined && twice !== null)
    throw new BadFile("column_twice", `the head has the column ${twice} twice: remove one`);
  const wanted = Object.entries(mapping ?? {}).filter(([name]) => !names.includes(name as UploadColumn));
  if (wanted.length > 0)
    throw new BadFile(
      "unknown_column",
      `the mapping names columns that the file has not: ${namesOf(wanted.map(([, theirs]) => theirs))}`,
    );
  const missing = names.includes("t") ? [] : purchaseColumns.filter((name) => !names.includes(name));
  if (missing.length > 0)
    throw new BadFile("missing_columns", `the head lacks ${namesOf(missing)}: name them, or map your own names`);
  return { names, hasDecimalComma: delimiter === ";" };
};
const namesOf = (names: readonly string[]): string => names.map((name) => name.slice(0, 64)).join(", ");
