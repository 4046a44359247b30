// Finds a ClickHouse that has come back without its data: it answers, and reports show nothing.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";

const CURE = "docs/runbooks/clickhouse-lost.md#its-data-are-gone";

/** Says instead of the error of a missing table what is lost, and what brings it back. */
export const orTablesGone = <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    if ((error as { readonly type?: string }).type !== "UNKNOWN_TABLE") throw error;
    throw new Error(
      `its tables are gone: npx tributary migrate apply makes them, then npx tributary rewind analytics --to ` +
        `earliest fills them (${CURE})`,
      { cause: error },
    );
  });

/**
 * Rejects when nothing is stored, though `read` records of the log were. While the log is away that
 * is unknown, and its own probe says so.
 */
export const checkFilled = async (
  clickhouse: Pick<Clickhouse, "query">,
  read: () => Promise<number>,
): Promise<void> => {
  const answer = await clickhouse.query({ query: "select 1 from events limit 1", format: "JSONEachRow" });
  if ((await answer.json()).length > 0) return;
  const records = await read().catch(() => 0);
  if (records > 0)
    throw new Error(
      `it is empty, though ${records} records of the log were stored in it: npx tributary rewind analytics --to ` +
        `earliest fills it (${CURE})`,
    );
};
