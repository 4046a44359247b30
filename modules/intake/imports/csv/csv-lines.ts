// Cuts a CSV file into its rows while it is read: each with its line, one that is broken named and
// left behind, never more in memory than a piece of the file.
import { isUtf8 } from "node:buffer";

/** Of one row; longer ones are refused alone. */
const MAX_ROW_BYTES = 64 * 1024;
const [LF, CR, QUOTE, NUL] = [10, 13, 34, 0];
const SLICE_BYTES = 256 * 1024;
/** Of a row that cannot be read. */
const SHOWN_BYTES = 1_024;

export interface CsvLine {
  /** Where the row begins, from 1. */
  readonly line: number;
  /** Bytes of the file up to behind it, and the line that begins there. */
  readonly next: { readonly offset: number; readonly line: number };
  readonly text: string;
  /** Why it cannot be read; its text is then the start of it. */
  readonly fault: { readonly code: string; readonly message: string } | null;
}

const faults = {
  unclosed_quote: 'a quote is opened and never closed: write "" for a quote inside quotes',
  bad_quote: 'behind a closing quote the cell goes on: write "" for a quote inside quotes',
  row_too_long: `the row is longer than ${MAX_ROW_BYTES} bytes; lines end with LF or CR LF`,
  bad_text: "the row is not UTF-8, or holds U+0000",
} as const;
type Fault = keyof typeof faults;

/** A row within a piece: where it ends, where the next one begins, how many lines it has. */
interface RowSpan {
  readonly end: number;
  readonly next: number;
  readonly lines: number;
  readonly fault: Fault | null;
  /** It goes on behind `next`. */
  readonly isCut?: boolean;
}

/**
 * The rows of `chunks`, which begin at `from`; blank lines are none. `delimiters` are the
 * characters of ASCII that may separate cells. One list for each piece of the file that was read.
 */
export async function* csvLines(
  chunks: AsyncIterable<Buffer>,
  from: CsvLine["next"],
  delimiters: string,
): AsyncGenerator<readonly CsvLine[], void> {
  const cutter = new Cutter(from, delimiters);
  for await (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      const lines = cutter.cut(chunk.subarray(at, at + SLICE_BYTES), false);
      if (lines.length > 0) yield lines;
    }
  const last = cutter.cut(Buffer.alloc(0), true);
  if (last.length > 0) yield last;
}

class Cutter {
  readonly #delimiters: readonly number[];
  #offset: number;
  #line: number;
  #rest = Buffer.alloc(0);
  /** A row that is too long, while the rest of it is left out. */
  #long: { readonly line: number; readonly start: Buffer } | undefined;

  constructor({ offset, line }: CsvLine["next"], delimiters: string) {
    this.#offset = offset;
    this.#line = line;
    this.#delimiters = [...Buffer.from(delimiters)];
  }

  cut(piece: Buffer, isEnd: boolean): CsvLine[] {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    const lines: CsvLine[] = [];
    let at = this.#leaveOut(bytes, 0, lines);
    while (at < bytes.length && this.#long === undefined) {
      const found = findRow(bytes, at, this.#delimiters, isEnd);
      if (found === undefined) break;
      const line = this.#line;
      const row = bytes.subarray(at, found.end);
      this.#offset += found.next - at;
      this.#line += found.lines;
      at = found.next;
      if (found.isCut) {
        this.#long = { line, start: Buffer.from(row.subarray(0, SHOWN_BYTES)) };
        at = this.#leaveOut(bytes, at, lines);
      } else if (row.length > 0) lines.push(this.#lineOf(row, line, found.fault));
    }
    this.#rest = Buffer.from(bytes.subarray(at));
    if (isEnd) this.#endLong(lines);
    return lines;
  }

  /** The rest of a row that is too long; answers where the next one begins. */
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
    if (this.#long !== undefined) lines.push(this.#lineOf(this.#long.start, this.#long.line, "row_too_long"));
    this.#long = undefined;
  }

  #lineOf(row: Buffer, line: number, known: Fault | null): CsvLine {
    const next = { offset: this.#offset, line: this.#line };
    const fault: Fault | null = known ?? (isUtf8(row) && !row.includes(NUL) ? null : "bad_text");
    const text = (fault === null ? row : row.subarray(0, SHOWN_BYTES)).toString("utf8");
    return { line, next, text, fault: fault === null ? null : { code: fault, message: faults[fault] } };
  }
}

/** Undefined: the rest of the row is not there yet. */
const findRow = (bytes: Buffer, at: number, delimiters: readonly number[], isEnd: boolean): RowSpan | undefined => {
  const newline = bytes.indexOf(LF, at);
  const quote = bytes.indexOf(QUOTE, at);
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

/** A row that cannot be read ends with its first line; the next one is read as if it were good. */
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

/** The cells of a row that could be read. */
export const cellsIn = (text: string, delimiter: string): string[] => {
  if (!text.includes('"')) return text.split(delimiter);
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (text[at] === '"') {
      let end = at + 1;
      for (;;) {
        end = text.indexOf('"', end);
        // A head is tried with separators that are not its own.
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
