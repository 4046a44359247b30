// Turns the rows of any CSV file into events of the batch endpoint, by --map, --set and --shift-to.

import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { parse } from "csv-parse";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";

export type Row = Readonly<Record<string, string>>;
export interface Mapping {
  /** Column by event field, e.g. did -> customer_id. */
  readonly columns: ReadonlyMap<string, string>;
  /** Fixed value by event field. */
  readonly constants: ReadonlyMap<string, string>;
}
/** Fields of the event itself; every other mapped field is a prop. */
const topLevel = new Set(["t", "ts", "did", "event_id", "url", "ref", "ip", "ua", "consent", "svc_click_id"]);
const integers = new Set(["quantity", "consent"]);
const DAY_MS = 86_400_000;
const NOON_MS = 12 * 3_600_000;

/** Reads `a=b,c=d` as pairs. Throws UsageError that names the malformed pair. */
export const pairsOf = (option: string, text: string | undefined): ReadonlyMap<string, string> =>
  new Map(
    (text ?? "")
      .split(",")
      .filter((pair) => pair !== "")
      .map((pair) => {
        const at = pair.indexOf("=");
        if (at <= 0 || at === pair.length - 1)
          throw new UsageError(`${option}: "${pair}" is not field=${option === "--map" ? "column" : "value"}`);
        return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()] as const;
      }),
  );

/** Reads all rows with their header names. Throws UsageError with line and column of a fault. */
export const rowsOf = async (file: string): Promise<readonly Row[]> => {
  const rows: Row[] = [];
  try {
    for await (const row of createReadStream(file).pipe(
      parse({ columns: true, bom: true, skip_empty_lines: true, trim: true }),
    ))
      rows.push(row as Row);
  } catch (error) {
    throw new UsageError(`${file}: ${(error as Error).message}`);
  }
  if (rows.length === 0) throw new UsageError(`${file}: no rows below the header`);
  return rows;
};

/** Returns the columns that a file lacks, each once. */
export const missingColumns = (row: Row, wanted: Iterable<string>): readonly string[] => [
  ...new Set([...wanted].filter((column) => !(column in row))),
];

/** Fields that every event needs, from a column or a constant. */
const NEEDED = ["did", "ts"];

/**
 * Checks the columns before anything is sent. Throws UsageError that names the columns of --map
 * which the file lacks, and the needed fields that neither a column nor --set gives.
 */
export const checkColumns = (file: string, row: Row, { columns, constants }: Mapping): void => {
  const has = `it has ${Object.keys(row).join(", ")}`;
  const missing = missingColumns(row, columns.values());
  if (missing.length > 0) throw new UsageError(`--map: ${file} has no column ${missing.join(", ")}; ${has}`);
  const without = NEEDED.filter((field) => !columns.has(field) && !constants.has(field));
  if (without.length > 0)
    throw new UsageError(
      `nothing was sent: no column is named for ${without.join(" and ")} (${file}: ${has}). ` +
        `Name it: --map ${without.map((field) => `${field}=<column>`).join(",")}`,
    );
};

/** Returns the day at the start of a text: `YYYY-MM-DD` with anything after it. */
const dayIn = (text: string): string | undefined => /^\d{4}-\d{2}-\d{2}/.exec(text.trim())?.[0];

/** Counts whole days between two calendar days in UTC, where every day has 24 hours. */
const daysBetween = (from: string, to: string): number =>
  (Date.parse(`${to}T00:00Z`) - Date.parse(`${from}T00:00Z`)) / DAY_MS;
const addDays = (day: string, days: number): string =>
  new Date(Date.parse(`${day}T00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);

/**
 * Returns by how many days all dates move so that the last one becomes `target` (`yesterday`,
 * `today` or `YYYY-MM-DD`, in America/Mexico_City). Throws UsageError for another target, or when
 * no row holds a date.
 */
export const shiftOf = (rows: readonly Row[], mapping: Mapping, target: string | undefined, now: number): number => {
  if (target === undefined) return 0;
  const column = mapping.columns.get("ts");
  if (column === undefined)
    throw new UsageError("--shift-to moves the column that --map names as ts; add ts=<column> to --map");
  const days = rows.flatMap((row) => dayIn(row[column] ?? "") ?? []);
  if (days.length === 0) throw new UsageError(`--shift-to: no row of column ${column} holds a date such as 2026-01-31`);
  const last = days.sort().at(-1)!;
  const goal = target === "yesterday" ? addDays(dayOf(now), -1) : target === "today" ? dayOf(now) : dayIn(target);
  if (goal === undefined)
    throw new UsageError(`--shift-to: "${target}" is not yesterday, today or a date such as 2026-01-31`);
  return daysBetween(last, goal);
};

/**
 * Returns the milliseconds of a cell: an integer unchanged, a date at noon in Mexico City (so that
 * no time zone moves it to another day), otherwise RFC 3339.
 */
const timeOf = (cell: string, shiftDays: number): number => {
  const text = cell.trim();
  if (/^\d{11,}$/.test(text)) return Number(text) + shiftDays * DAY_MS;
  const day = dayIn(text);
  if (day !== undefined && day.length === text.length) return startOfDay(addDays(day, shiftDays)) + NOON_MS;
  return Date.parse(text) + shiftDays * DAY_MS;
};

/**
 * Makes one event of each row, in the shape of POST /ingest/batch. Rows without an order id get
 * `<file>-<row>` (the first row of data is 1), and rows without an event id the same text, so that
 * sending a file twice changes nothing. Values are sent unchanged; the edge validates them.
 */
export const eventsOf = (
  file: string,
  rows: readonly Row[],
  mapping: Mapping,
  clientId: number,
  shiftDays: number,
): readonly object[] => {
  const name = basename(file).replace(/\.[^.]*$/, "");
  return rows.map((row, n) => {
    const event: Record<string, unknown> = { t: "purchase", cid: clientId };
    const props: Record<string, unknown> = {};
    const put = (field: string, value: string) => {
      const typed =
        field === "ts" ? timeOf(value, shiftDays) : integers.has(field) && /^\d+$/.test(value) ? Number(value) : value;
      if (topLevel.has(field)) event[field] = typed;
      else props[field] = typed;
    };
    for (const [field, value] of mapping.constants) put(field, value);
    for (const [field, column] of mapping.columns) put(field, row[column] ?? "");
    const identity = `${name}-${n + 1}`;
    event.event_id ??= identity.replace(/[^A-Za-z0-9._:-]/g, "_");
    if (event.t === "purchase") props.order_id ??= identity;
    event.props = props;
    return event;
  });
};
