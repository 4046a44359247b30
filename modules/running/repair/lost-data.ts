// Finds a ClickHouse that has come back without its data: it answers, and reports show nothing.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { events } from "../../../sinks/analytics/table.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import type { Hosts } from "../../log/groups/hosts.ts";

const sink = sinkInto(pipeline, events);
const CURE = "docs/runbooks/clickhouse-lost.md#its-data-are-gone";

/** How many records that the log still holds were read into ClickHouse. */
export const readIntoClickhouse = async (
  admin: Pick<Admin, "watermarks" | "committed">,
  hosts: Hosts,
): Promise<number> => {
  const { group, topic } = hosts(sink);
  const [marks, committed] = await Promise.all([admin.watermarks(topic), admin.committed(group, topic)]);
  return marks.reduce((sum, { partition, low }) => sum + Math.max(0, (committed.get(partition) ?? low) - low), 0);
};

/** Says instead of the error of a missing table what is lost, and what brings it back. */
export const orTablesGone = <T>(answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    if ((error as { readonly type?: string }).type !== "UNKNOWN_TABLE") throw error;
    throw new Error(
      `its tables are gone: npx tributary migrate apply makes them, then npx tributary rewind ${sink.name} --to ` +
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
      `it is empty, though ${records} records of the log were stored in it: npx tributary rewind ${sink.name} --to ` +
        `earliest fills it (${CURE})`,
    );
};
