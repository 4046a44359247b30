// One line of a CSV file (RFC 4180), safe to open in a spreadsheet.

/** Tells spreadsheets that the file is UTF-8. */
export const BOM = "\ufeff";

/** Text that a spreadsheet would take for a formula, or drop. */
const FORMULA = /^[=+\-@\t\r\0]/;
const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/**
 * `kinds` says whether each cell is a text, which never becomes a formula, or a number, which stays
 * bare. Null and undefined are empty; values that are not texts are written as JSON.
 */
export const csvLine = (cells: readonly unknown[], kinds: readonly ("text" | "number")[]): string =>
  `${cells
    .map((cell, n) => {
      if (cell === null || cell === undefined) return "";
      const text = typeof cell === "string" ? cell : typeof cell === "object" ? JSON.stringify(cell) : String(cell);
      return quoted(kinds[n] === "text" && FORMULA.test(text) ? `'${text}` : text);
    })
    .join(",")}\r\n`;
