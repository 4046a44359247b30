// The output of commands: a table for people, JSON with --json.

/**
 * Control characters (C0 except line feed and tab, DEL, C1) and characters that turn the direction
 * of text. A terminal obeys them, and texts of events come from anybody.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const OBEYED = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const escaped = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
/** The same text with the characters that a terminal would obey written as JSON escapes. */
export const visible = (text: string): string => text.replace(OBEYED, escaped);
/** Escapes for one line or cell: a line feed or a tab of an event must not make another row. */
export const visibleLine = (text: string): string => visible(text).replace(/[\t\n\u2028\u2029]/g, escaped);

/** Rows under headers, with columns as wide as they need; numbers are aligned right. */
export const table = (headers: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string => {
  const cells = rows.map((row) => row.map((cell) => (cell === null ? "-" : visibleLine(String(cell)))));
  const widths = headers.map((header, n) => Math.max(header.length, ...cells.map((row) => row[n]?.length ?? 0)));
  const isNumeric = headers.map(
    (_, n) => cells.length > 0 && cells.every((row) => /^-?[\d.,]+$|^-$/.test(row[n] ?? "-")),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, n) => (isNumeric[n] ? cell.padStart(widths[n]!) : cell.padEnd(widths[n]!)))
      .join("  ")
      .trimEnd();
  return [line(headers), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)].join("\n");
};

let redact = (text: string): string => text;
/** Prints everything from now on through this function, which removes secrets. */
export const printThrough = (redactor: (text: string) => string): void => {
  redact = redactor;
};

export const print = (text: string): void => void process.stdout.write(`${visible(redact(text))}\n`);
export const printJson = (value: unknown): void =>
  print(JSON.stringify(value, (_, part) => (typeof part === "bigint" ? part.toString() : part), 2));
export const tell = (text: string): void => void process.stderr.write(`${visible(redact(text))}\n`);
