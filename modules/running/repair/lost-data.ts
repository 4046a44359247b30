// Finds a ClickHouse that has come back without its data: it answers, and reports show nothing, or
// only what came since.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { ROWS_GONE, TABLES_GONE } from "./findings.ts";

const CURE = "docs/runbooks/clickhouse-lost.md#its-data-are-gone";
const FILLS = "npx tributary rewind analytics --to earliest";

/** Says instead of the error of a missing table what is lost, and what brings it back. */
export const orTablesGone = <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    if ((error as { readonly type?: string }).type !== "UNKNOWN_TABLE") throw error;
    throw new Error(`${TABLES_GONE}: npx tributary migrate apply makes them, then ${FILLS} fills them (${CURE})`, {
      cause: error,
    });
  });

/** How many records of the log, appended longer ago than an age, were read into ClickHouse. */
export interface OlderRecords {
  readonly ageSec: number;
  readonly records: number;
}

const MINUTE = 60;
const HOUR = 3_600;
/**
 * Rows that came since the loss are younger than one of these ages; the log keeps records for
 * thirty days. 0: all of them.
 */
export const AGES: readonly number[] = [0, 10 * MINUTE, HOUR, 24 * HOUR, 7 * 24 * HOUR, 25 * 24 * HOUR];
/**
 * Of ten records at least one is a row of its own: rewinds and copies append an event again. A
 * thousand rows are enough to say that the rest is there too.
 */
const RECORDS_A_ROW = 10;
const MOST_ROWS = 1_000;
/** An event is no younger than its record, but clocks differ. */
const SKEW_SEC = MINUTE;

/**
 * Rejects when rows are missing that must be there by the `read` records of the log. While the log
 * is away that is unknown, and its own probe says so: then an alert is neither raised nor resolved.
 * A store that is whole finds its rows in the first parts that it looks at.
 */
export const checkFilled = async (
  clickhouse: Pick<Clickhouse, "query">,
  read: () => Promise<readonly OlderRecords[]>,
  alerted: string | null,
): Promise<void> => {
  const older = await read().catch(() => null);
  if (older === null && alerted?.startsWith(ROWS_GONE) === true) throw new Error(alerted);
  for (const { ageSec, records } of older ?? []) {
    const wanted = Math.min(MOST_ROWS, Math.ceil(records / RECORDS_A_ROW));
    if (wanted === 0) continue;
    const found = await rowsOlderThan(clickhouse, ageSec, wanted);
    if (found < wanted) throw new Error(`${ROWS_GONE}: ${lossOf(found, records, ageSec)}: ${FILLS} fills it (${CURE})`);
  }
};

const agoOf = (seconds: number): string => (seconds < HOUR ? `${seconds / MINUTE} min` : `${seconds / HOUR} h`);
const lossOf = (found: number, records: number, ageSec: number): string =>
  ageSec === 0
    ? `it has ${found}, though ${records} records of the log were stored in it`
    : `it has ${found} from more than ${agoOf(ageSec)} ago, though ${records} records of then were stored in it`;

/** Counts up to `most` rows whose event lies longer ago; `at` is not later than the receipt. */
const rowsOlderThan = async (clickhouse: Pick<Clickhouse, "query">, ageSec: number, most: number): Promise<number> => {
  const before = ageSec === 0 ? "" : `where at < now64(3) - toIntervalSecond({seconds: UInt32})`;
  const answer = await clickhouse.query({
    query: `select count() as found from (select 1 from events ${before} limit {most: UInt32})`,
    query_params: { most, seconds: ageSec - SKEW_SEC },
    format: "JSONEachRow",
  });
  const [row] = await answer.json<{ found: string | number }>();
  return Number(row!.found);
};
