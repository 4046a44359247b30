// Computes the age of the oldest sale that is in the log and not yet in Postgres, and how much of
// the log ClickHouse has.
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { events } from "../../../sinks/analytics/table.ts";
import { productSales } from "../../../sinks/product-sales/table.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import type { Hosts } from "../../log/groups/hosts.ts";
import { AGES, type OlderRecords } from "./lost-data.ts";

/** The sink of sales; reports count its rows. */
const sales = sinkInto(pipeline, productSales);
/** The log keeps its topics for at least a week; greater ages are not distinguished. */
const LONGEST_SEC = 7 * 86_400;
const PRECISION_SEC = 5;

const analytics = sinkInto(pipeline, events);

type LogPositions = Pick<Admin, "watermarks" | "committed" | "offsetsAt">;

/**
 * Returns seconds; 0 when everything is committed. The broker does not return the time of a record,
 * only the first offset at or after a time. So the age of the record at the committed offset is
 * found by bisection, with 17 requests a lagging partition.
 */
export const syncLagOf = async (admin: LogPositions, hosts: Hosts, now: () => number = Date.now): Promise<number> => {
  const { group, topic } = hosts(sales);
  const [marks, committed] = await Promise.all([admin.watermarks(topic), admin.committed(group, topic)]);
  const waiting = marks
    .map(({ partition, low, high }) => ({ partition, high, next: Math.max(low, committed.get(partition) ?? low) }))
    .filter(({ next, high }) => next < high);
  const at = now();
  // True when a waiting record was appended longer ago than this: its offset lies below the first
  // one appended since.
  const isOlderThan = async (seconds: number): Promise<boolean> => {
    const since = await admin.offsetsAt(topic, Math.round(at - seconds * 1_000));
    return waiting.some(({ partition, next, high }) => next < (since.get(partition) ?? high));
  };
  if (waiting.length === 0) return 0;
  let oldest = 0;
  for (let above = LONGEST_SEC; above - oldest > PRECISION_SEC; ) {
    const middle = (oldest + above) / 2;
    if (await isOlderThan(middle)) oldest = middle;
    else above = middle;
  }
  return oldest;
};

/** How many records that the log still holds were read into ClickHouse, by how old they are. */
export const readIntoClickhouse = async (
  admin: LogPositions,
  hosts: Hosts,
  now: () => number = Date.now,
): Promise<readonly OlderRecords[]> => {
  const { group, topic } = hosts(analytics);
  const [marks, committed] = await Promise.all([admin.watermarks(topic), admin.committed(group, topic)]);
  const at = now();
  return Promise.all(
    AGES.map(async (ageSec) => {
      const ends = ageSec === 0 ? null : await admin.offsetsAt(topic, Math.round(at - ageSec * 1_000));
      const records = marks.map(({ partition, low }) => {
        const read = committed.get(partition) ?? low;
        return Math.max(0, Math.min(read, ends?.get(partition) ?? read) - low);
      });
      return { ageSec, records: records.reduce((sum, count) => sum + count, 0) };
    }),
  );
};
