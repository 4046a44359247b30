// Compares two states: of two releases, whose tables may have other columns, and of before and
// after a replay, hour by hour.
import type { UnixMs } from "../../../stream/flow.ts";
import type { ColumnsByTable, HourHash, TableHash } from "./hour-hash.ts";

/**
 * What became of a table since the earlier state. `changed`: as many rows, of other contents. `new`
 * and `gone`: only one release has it. `unknown`: nothing can be said, for the reason given.
 */
export interface TableComparison {
  readonly table: string;
  readonly outcome: "same" | "more" | "fewer" | "changed" | "new" | "gone" | "unknown";
  readonly rows_before: number | null;
  readonly rows: number | null;
  readonly because: string | null;
}

const nameOf = ({ store, table }: Pick<TableHash, "store" | "table">): string => `${store}.${table}`;
const isEqual = (a: TableHash, b: TableHash): boolean => a.rows === b.rows && a.hash === b.hash;

/** By the number of rows, when the contents are not the same. */
const byRows = (before: number, now: number): "more" | "fewer" | "changed" =>
  now < before ? "fewer" : now > before ? "more" : "changed";

const hasSameColumns = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((name) => b.includes(name));

/** Why contents of two releases cannot be compared. Null if they can. */
const obstacleTo = (before: TableHash, now: TableHash): string | null => {
  if (before.columns === undefined) return "the earlier hash does not say which columns it is of";
  const lost = before.columns.filter((name) => now.columns?.includes(name) !== true);
  return lost.length === 0 ? null : `this release has no ${lost.join(", ")}`;
};

/**
 * Compares a state of an earlier release with the present one. A table that has got columns since
 * is hashed again, by `hashAgain`, with the columns that the earlier hash is of.
 */
export const compareReleases = async (
  earlier: readonly TableHash[],
  present: readonly TableHash[],
  hashAgain: (columns: ColumnsByTable) => Promise<readonly TableHash[]>,
): Promise<readonly TableComparison[]> => {
  const now = new Map(present.map((one) => [nameOf(one), one]));
  const wider = earlier.filter((before) => {
    const one = now.get(nameOf(before));
    if (one === undefined || isEqual(before, one) || obstacleTo(before, one) !== null) return false;
    return !hasSameColumns(before.columns!, one.columns!);
  });
  const again = wider.length === 0 ? [] : await hashAgain(new Map(wider.map((one) => [one.table, one.columns!])));
  const comparable = new Map([...now, ...again.map((one) => [nameOf(one), one] as const)]);
  const known = earlier.map((before): TableComparison => {
    const [table, one] = [nameOf(before), comparable.get(nameOf(before))];
    const rows = { rows_before: before.rows, rows: one?.rows ?? null };
    if (one === undefined) return { table, outcome: "gone", ...rows, because: null };
    if (isEqual(before, one)) return { table, outcome: "same", ...rows, because: null };
    const obstacle = obstacleTo(before, one);
    // Columns say nothing of the number of rows.
    const isUnknown = obstacle !== null && one.rows >= before.rows;
    return isUnknown
      ? { table, outcome: "unknown", ...rows, because: obstacle }
      : { table, outcome: byRows(before.rows, one.rows), ...rows, because: null };
  });
  const names = new Set(earlier.map(nameOf));
  const added = present
    .filter((one) => !names.has(nameOf(one)))
    .map((one): TableComparison => {
      return { table: nameOf(one), outcome: "new", rows_before: null, rows: one.rows, because: null };
    });
  return [...known, ...added];
};

/** What a replay made of a table. An hour is counted once, by what became of its rows. */
export interface ReplayedTable {
  readonly table: string;
  readonly rows_before: number;
  readonly rows: number;
  readonly hours: {
    readonly same: number;
    readonly more: readonly (UnixMs | null)[];
    readonly changed: readonly (UnixMs | null)[];
    readonly fewer: readonly (UnixMs | null)[];
  };
}

/**
 * Compares hour by hour, so that live traffic and rows that came back do not hide what became of
 * all others. Hours that only the second state has are among `more`.
 */
export const compareHours = (before: readonly HourHash[], after: readonly HourHash[]): readonly ReplayedTable[] => {
  const none = { rows: 0, hash: 0n };
  const hourOf = (one: HourHash): string => `${nameOf(one)} ${one.hour}`;
  const was = new Map(before.map((one) => [hourOf(one), one]));
  const is = new Map(after.map((one) => [hourOf(one), one]));
  const found = new Map<string, Counting>();
  for (const one of new Map([...was, ...is]).values()) {
    const [a, b] = [was.get(hourOf(one)) ?? none, is.get(hourOf(one)) ?? none];
    const table = nameOf(one);
    const known = found.get(table) ?? {
      ...{ table, rows_before: 0, rows: 0 },
      hours: { same: 0, more: [], changed: [], fewer: [] },
    };
    found.set(table, known);
    known.rows_before += a.rows;
    known.rows += b.rows;
    if (a.rows === b.rows && a.hash === b.hash) known.hours.same += 1;
    else known.hours[byRows(a.rows, b.rows)].push(one.hour);
  }
  return [...found.values()];
};

interface Counting {
  readonly table: string;
  rows_before: number;
  rows: number;
  readonly hours: { same: number; readonly more: Hours; readonly changed: Hours; readonly fewer: Hours };
}
type Hours = (UnixMs | null)[];
