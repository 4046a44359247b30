// Tells what a probe found in a store that answers from a store that is down. An error is stored as
// text, and another keeper may have found it, so its beginning tells what it is.

/** Sales are late: all that needs Postgres goes on. */
export const LATE = "sales reach Postgres";
/** ClickHouse takes rows, and has lost older ones. */
export const ROWS_GONE = "its rows are gone";
/** ClickHouse takes no row. */
export const TABLES_GONE = "its tables are gone";

const beginsWith = (error: string | null, findings: readonly string[]): boolean =>
  findings.some((finding) => error?.startsWith(finding) === true);

/** A restart brings no data back. */
export const isCuredByRestart = (error: string | null): boolean => !beginsWith(error, [ROWS_GONE, TABLES_GONE]);

/** True if groups that need the store stand because of this error. */
export const stopsGroups = (error: string | null): boolean => !beginsWith(error, [LATE, ROWS_GONE]);
