// Splits a CSV file into rows while it is read. Each row has its line number; a broken row is
// reported and skipped. Holds at most a piece of the file in memory.
import { isUtf8 } from "node:buffer";

/** The longest row; only longer ones are refused. */
const MAX_ROW_BYTES = 64 * 1024;
const [LF, CR, QUOTE, NUL] = [10, 13, 34, 0];
const SLICE_BYTES = 256 * 1024;
/** The shown bytes of an unreadable row. */
const SHOWN_BYTES = 1_024;

/** Where reading goes on in a file. */
export interface Place {
  readonly offset: number;
  /** The number of the line that begins there, from 1. */
  readonly line: number;
  /** The blank lines before it; absent in a place that an earlier release has stored. */
  readonly blank?: number;
}

export interface CsvLine {
  /** The line on which the row begins, from 1. */
  readonly line: number;
  /** The place behind the row. */
  readonly next: Place;
  readonly text: string;
  /** Why the row cannot be read; `text` is then its beginning. */
  readonly fault: { readonly code: string; readonly message: string } | null;
}

/** The rows that end within one piece of a file. */
export interface CsvPiece {
  readonly lines: readonly CsvLine[];
  /** Where reading goes on behind these rows; a row that has not ended yet begins here. */
  readonly next: Place;
  readonly bytes: number;
}

const faults = {
  unclosed_quote: 'a quote is opened and never closed: write "" for a quote inside quotes',
  bad_quote: 'behind a closing quote the cell goes on: write "" for a quote inside quotes',
  row_too_long: `the row is longer than ${MAX_ROW_BYTES} bytes; lines end with LF or CR LF`,
  bad_text: "the row is not UTF-8, or holds U+0000",
} as const;
type Fault = keyof typeof faults;

/** A row within a piece: its end, the beginning of the next row, and its number of lines. */
interface RowSpan {
  readonly end: number;
  readonly next: number;
  readonly lines: number;
  readonly fault: Fault | null;
  /** True if the row continues behind `next`. */
  readonly isCut?: boolean;
}

/**
 * Yields the rows of `chunks`, which begin at `from`, piece by piece of the file. Blank lines are
 * counted and no rows, so a piece may be without rows: its reader still sees that the file goes on.
 * `delimiters` are the ASCII characters that may separate cells.
 */
export async function* csvLines(
  chunks: AsyncIterable<Buffer>,
  from: Place,
  delimiters: string,
): AsyncGenerator<CsvPiece, void> {
  const cutter = new Cutter(from, delimiters);
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += SLICE_BYTES)
      yield cutter.cut(chunk.subarray(at, at + SLICE_BYTES), false);
  yield cutter.cut(Buffer.alloc(0), true);
}

class Cutter {
  readonly #delimiters: readonly number[];
  #offset: number;
  #line: number;
  #blank: number;
  #rest = Buffer.alloc(0);
  /** A row that is too long, while the rest of it is skipped. */
  #long: { readonly from: Place; readonly start: Buffer } | undefined;

  constructor({ offset, line, blank = 0 }: Place, delimiters: string) {
    this.#offset = offset;
    this.#line = line;
    this.#blank = blank;
    this.#delimiters = [...Buffer.from(delimiters)];
  }

  cut(piece: Buffer, isEnd: boolean): CsvPiece {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    const lines: CsvLine[] = [];
    let at = this.#pastBlank(bytes, this.#leaveOut(bytes, 0, lines));
    // Each search for a quote goes on where the one before has ended: one a row would read the
    // piece again for every blank line.
    let quote = bytes.indexOf(QUOTE, at);
    while (at < bytes.length && this.#long === undefined) {
      if (quote >= 0 && quote < at) quote = bytes.indexOf(QUOTE, at);
      const found = findRow(bytes, { at, quote }, this.#delimiters, isEnd);
      if (found === undefined) break;
      const from = this.#place();
      const row = bytes.subarray(at, found.end);
      this.#offset += found.next - at;
      this.#line += found.lines;
      at = found.next;
      if (found.isCut) {
        this.#long = { from, start: Buffer.from(row.subarray(0, SHOWN_BYTES)) };
        at = this.#leaveOut(bytes, at, lines);
      } else if (row.length > 0) lines.push(this.#lineOf(row, from.line, found.fault));
      else this.#blank += 1;
      at = this.#pastBlank(bytes, at);
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    if (isEnd) this.#endLong(lines);
    return { lines, next: this.#long?.from ?? this.#place(), bytes: piece.length };
  }

  /** A file may be blank lines alone, which would each be searched for as a row. */
  #pastBlank(bytes: Buffer, at: number): number {
    if (this.#long !== undefined) return at;
    let end = at;
    for (;;) {
      if (bytes[end] === LF) end += 1;
      else if (bytes[end] === CR && bytes[end + 1] === LF) end += 2;
      else break;
      this.#line += 1;
      this.#blank += 1;
    }
    this.#offset += end - at;
    return end;
  }

  #place(): Place {
    return { offset: this.#offset, line: this.#line, blank: this.#blank };
  }

  /** Skips the rest of a row that is too long; returns where the next one begins. */
  #leaveOut(bytes: Buffer, at: number, lines: CsvLine[]): number {
    if (this.#long === undefined) return at;
    const newline = bytes.indexOf(LF, at);
    const next = newline < 0 ? bytes.length : newline + 1;
    this.#offset += next - at;
    if (newline < 0) return next;
    this.#line += 1;
    this.#endLong(lines);
    return next;
  }

  #endLong(lines: CsvLine[]): void {
    if (this.#long !== undefined) lines.push(this.#lineOf(this.#long.start, this.#long.from.line, "row_too_long"));
    this.#long = undefined;
  }

  #lineOf(row: Buffer, line: number, known: Fault | null): CsvLine {
    const next = this.#place();
    const fault: Fault | null = known ?? (isUtf8(row) && !row.includes(NUL) ? null : "bad_text");
    const text = (fault === null ? row : row.subarray(0, SHOWN_BYTES)).toString("utf8");
    return { line, next, text, fault: fault === null ? null : { code: fault, message: faults[fault] } };
  }
}

/**
 * The row at `at`; `quote` is the next quote behind it, below 0 if there is none. Undefined: the
 * rest of the row has not been read yet.
 */
const findRow = (
  bytes: Buffer,
  { at, quote }: { readonly at: number; readonly quote: number },
  delimiters: readonly number[],
  isEnd: boolean,
): RowSpan | undefined => {
  const newline = bytes.indexOf(LF, at);
  const stop = newline < 0 ? bytes.length : newline;
  if (quote >= 0 && quote < stop) return quotedRow(bytes, at, delimiters, isEnd);
  if (stop - at > MAX_ROW_BYTES) return tooLong(at);
  if (newline < 0 && !isEnd) return undefined;
  return rowEnding(bytes, at, stop, 1);
};

const tooLong = (at: number): RowSpan => {
  const end = at + MAX_ROW_BYTES;
  return { end, next: end, lines: 0, fault: "row_too_long", isCut: true };
};
const rowEnding = (bytes: Buffer, at: number, stop: number, lines: number, fault: Fault | null = null): RowSpan => {
  const isLine = stop < bytes.length;
  const end = stop > at && bytes[stop - 1] === CR ? stop - 1 : stop;
  return { end, next: isLine ? stop + 1 : stop, lines: isLine ? lines : lines - 1, fault };
};

/** An unreadable row ends with its first line; the next line is read as a new row. */
const broken = (bytes: Buffer, at: number, isEnd: boolean, fault: Fault): RowSpan | undefined => {
  const newline = bytes.indexOf(LF, at);
  const stop = newline < 0 ? bytes.length : newline;
  if (newline < 0 && !isEnd && stop - at <= MAX_ROW_BYTES) return undefined;
  return stop - at > MAX_ROW_BYTES ? tooLong(at) : rowEnding(bytes, at, stop, 1, fault);
};

const quotedRow = (bytes: Buffer, at: number, delimiters: readonly number[], isEnd: boolean): RowSpan | undefined => {
  let isQuoted = false;
  let lines = 1;
  const most = Math.min(bytes.length, at + MAX_ROW_BYTES);
  for (let n = at; n < most; n += 1) {
    const byte = bytes[n]!;
    if (isQuoted) {
      if (byte === LF) lines += 1;
      if (byte !== QUOTE) continue;
      if (n + 2 >= bytes.length && !isEnd) return undefined;
      const [next, second] = [bytes[n + 1], bytes[n + 2]];
      if (next === QUOTE) n += 1;
      else if (next === undefined || delimiters.includes(next) || next === LF) isQuoted = false;
      else if (next === CR && (second === LF || second === undefined)) isQuoted = false;
      else return broken(bytes, at, isEnd, "bad_quote");
    } else if (byte === LF) return rowEnding(bytes, at, n, lines);
    else if (byte === QUOTE && (n === at || delimiters.includes(bytes[n - 1]!))) isQuoted = true;
  }
  if (bytes.length - at > MAX_ROW_BYTES) return broken(bytes, at, isEnd, isQuoted ? "unclosed_quote" : "row_too_long");
  if (!isEnd) return undefined;
  return isQuoted ? broken(bytes, at, isEnd, "unclosed_quote") : rowEnding(bytes, at, bytes.length, lines);
};

/** The rows of one send to the log, which are repeated after a crash. */
const BATCH_ROWS = 1_000;
/**
 * After so much of a file a batch has fewer rows, or none: a cancel and a stop must be seen.
 */
export const BATCH_BYTES = 16 * 1024 * 1024;

/** Rows that go to the log together; without rows it shows that the file goes on. */
type Batch = Pick<CsvPiece, "lines" | "next">;
/**
 * Yields the batches of a file: those of 1,000 rows, and what there is after 16 MiB without one.
 * The last one ends with the file, and may be blank lines alone.
 */
export async function* batches(pieces: AsyncIterable<CsvPiece>): AsyncGenerator<Batch, void> {
  let waiting: CsvLine[] = [];
  let read = 0;
  let end: Place | undefined;
  for await (const { lines, next, bytes } of pieces) {
    waiting = waiting.concat(lines);
    read += bytes;
    end = next;
    let at = 0;
    for (; waiting.length - at >= BATCH_ROWS; at += BATCH_ROWS) {
      yield batchOf(waiting.slice(at, at + BATCH_ROWS));
      read = 0;
    }
    waiting = waiting.slice(at);
    if (read < BATCH_BYTES) continue;
    yield { lines: waiting, next };
    waiting = [];
    read = 0;
  }
  if (end !== undefined && (waiting.length > 0 || read > 0)) yield { lines: waiting, next: end };
}
const batchOf = (lines: readonly CsvLine[]): Batch => ({ lines, next: lines.at(-1)!.next });

/** Splits a readable row into cells. */
export const cellsIn = (text: string, delimiter: string): string[] => {
  if (!text.includes('"')) return text.split(delimiter);
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] === '"') {
      let end = at + 1;
      for (;;) {
        end = text.indexOf('"', end);
        // A head may be split with a separator that is not its own, so a quote may lack its end.
        if (end < 0) end = text.length;
        if (text[end + 1] !== '"') break;
        end += 2;
      }
      cells.push(text.slice(at + 1, end).replaceAll('""', '"'));
      at = end + 1;
    } else {
      const found = text.indexOf(delimiter, at);
      const end = found < 0 ? text.length : found;
      cells.push(text.slice(at, end));
      at = end;
    }
    if (at >= text.length) return cells;
    at += delimiter.length;
  }
};
