// How commands answer: a table for people, JSON with --json.

/** Rows under headers, columns as wide as they need; numbers stand right. */
export const table = (headers: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string => {
  const cells = rows.map((row) => row.map((cell) => (cell === null ? "-" : String(cell))));
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

export const print = (text: string): void => void process.stdout.write(`${text}\n`);
export const printJson = (value: unknown): void =>
  print(JSON.stringify(value, (_, part) => (typeof part === "bigint" ? part.toString() : part), 2));
export const tell = (text: string): void => void process.stderr.write(`${text}\n`);
