// Turns a row of a CSV file into an event: the header names the columns, and texts become times,
// numbers and amounts.
import { startOfDay } from "../../../domain/calendar.ts";
import { digitsOf, toMinor } from "../../../domain/money.ts";
import { eventTypeOf } from "../event-types.ts";
import { refuse } from "../refuse.ts";

/** The column names of a file (docs/import-csv.md). */
export const uploadColumns = [
  ...(["t", "ts", "did", "order_id", "revenue", "currency", "product_id", "product_line", "quantity"] as const),
  ...(["svc_click_id", "email_sha256", "event_id"] as const),
] as const;
export type UploadColumn = (typeof uploadColumns)[number];

export interface Columns {
  /** The column of each cell. Null for a column that we do not know. */
  readonly names: readonly (UploadColumn | null)[];
  /** If cells are separated by semicolons, `12,50` is an amount. */
  readonly hasDecimalComma: boolean;
}
export interface Row {
  /** The line in the file, starting at 1 with the header. */
  readonly line: number;
  readonly cells: readonly string[];
}
type Cells = Readonly<Partial<Record<UploadColumn, string>>>;

/** The columns that purchases need. A file without a column `t` holds purchases. */
export const purchaseColumns: readonly UploadColumn[] = ["order_id", "revenue", "product_id", "quantity", "ts"];

const NOON_MS = 12 * 3_600_000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/;
const UNIX_MS = /^\d{1,16}$/;
const SHA256 = /^[0-9a-f]{64}$/i;
/**
 * Matches `1.234,50` and `12,50`. `1.234` is not converted, and is then refused for its three
 * decimals.
 */
const DECIMAL_COMMA = /^(-?\d{1,3}(?:\.\d{3})+|-?\d+),(\d+)$/;

const cellsOf = ({ cells }: Row, { names }: Columns): Cells => {
  if (cells.length !== names.length)
    return refuse("wrong_cells", null, `has ${cells.length} cells, the head has ${names.length}`);
  const found: Partial<Record<UploadColumn, string>> = {};
  for (const [n, name] of names.entries()) {
    const text = name === null ? "" : cells[n]!.trim();
    if (text !== "") found[name!] = text;
  }
  return found;
};

interface RowEvent {
  readonly event: Readonly<Record<string, unknown>>;
  readonly props: Readonly<Record<string, unknown>>;
}

/** The event as a sender would write it. Throws Refused for invalid cells. */
export const givenEvent = (row: Row, columns: Columns): RowEvent => {
  const {
    t = "purchase",
    ts,
    did,
    svc_click_id,
    event_id,
    revenue,
    quantity,
    email_sha256,
    ...plain
  } = cellsOf(row, columns);
  if (email_sha256 !== undefined && !SHA256.test(email_sha256))
    refuse("bad_email_sha256", "email_sha256", "is no SHA-256: 64 hex digits of the e-mail in lower case");
  const props: Record<string, unknown> = { ...plain };
  if (revenue !== undefined) props[eventTypeOf(t)?.amount ?? "revenue"] = amountText(revenue, columns);
  if (quantity !== undefined) props.quantity = UNIX_MS.test(quantity) ? Number(quantity) : quantity;
  // Under the prop name `email` the hash is keyed, and linked to the same address from other
  // sources.
  if (email_sha256 !== undefined) props.email = email_sha256.toLowerCase();
  return { event: { t, ts: timeOf(ts), did, svc_click_id, event_id }, props };
};

const amountText = (text: string, { hasDecimalComma }: Columns): string => {
  const match = hasDecimalComma ? DECIMAL_COMMA.exec(text) : null;
  return match === null ? text : `${match[1]!.replaceAll(".", "")}.${match[2]}`;
};

/**
 * A date without a time means noon in Mexico City, so that no time zone moves it to another day.
 */
const timeOf = (text: string | undefined): number => {
  if (text === undefined) return refuse("missing_ts", "ts", "is required: when it happened");
  if (UNIX_MS.test(text)) return Number(text);
  const at = DAY.test(text) ? dayAt(text) : RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at)
    ? refuse("bad_ts", "ts", "is no time: send 2026-01-31, 2026-01-31T12:00:00Z or Unix milliseconds")
    : at;
};
const dayAt = (day: string): number => {
  const at = Date.parse(`${day}T00:00:00Z`);
  const isDay = !Number.isNaN(at) && new Date(at).toISOString().startsWith(day);
  return isDay ? startOfDay(day) + NOON_MS : Number.NaN;
};

/**
 * The amount that the file states for a row, even if the row is refused. Null if it cannot be read.
 */
export const statedAmount = (
  row: Row,
  columns: Columns,
): { readonly currency: string; readonly minor: bigint } | null => {
  const cell = (name: UploadColumn): string => row.cells[columns.names.indexOf(name)]?.trim() ?? "";
  const currency = cell("currency").toUpperCase() || "MXN";
  if (cell("revenue") === "" || digitsOf(currency) === undefined) return null;
  const amount = toMinor(amountText(cell("revenue"), columns), currency);
  return amount.kind === "amount" ? { currency, minor: amount.minor } : null;
};
