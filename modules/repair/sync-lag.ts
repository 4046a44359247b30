// The age of the oldest sale that is in the log and not yet in Postgres.
import type { Admin } from "../../infra/kafka/admin.ts";

/**
 * The sink's own group where it is hosted alone, else that of the sinks that it is hosted with
 * (modules/installation/product.ts).
 */
const GROUPS = ["tributary.product-sales", "tributary.analytics"] as const;
const TOPIC = "events.attributed";
/** The log keeps a week of its topics at least; older than that is not told apart. */
const LONGEST_SEC = 7 * 86_400;
const PRECISION_SEC = 5;

/**
 * In seconds; 0 when everything is committed. The broker does not tell the time of a record, but
 * which record a time comes before: the age of the record at the committed offset is found by
 * halving, 17 questions a partition that waits.
 */
export const syncLagOf = async (admin: Admin, now: () => number = Date.now): Promise<number> => {
  const [own] = await admin.describeGroups([GROUPS[0]]);
  const group = own !== undefined && own.members.length > 0 ? GROUPS[0] : GROUPS[1];
  const [marks, committed] = await Promise.all([admin.watermarks(TOPIC), admin.committed(group, TOPIC)]);
  const waiting = marks.filter(({ partition, low, high }) => Math.max(low, committed.get(partition) ?? low) < high);
  let oldest = 0;
  const at = now();
  // Is a record waiting that was appended longer ago than this? Then its offset lies below the
  // first one appended since.
  const isOlderThan = async (seconds: number): Promise<boolean> => {
    const since = await admin.offsetsAt(TOPIC, at - seconds * 1_000);
    return waiting.some(
      ({ partition, low, high }) => Math.max(low, committed.get(partition) ?? low) < (since.get(partition) ?? high),
    );
  };
  if (waiting.length === 0) return 0;
  for (let above = LONGEST_SEC; above - oldest > PRECISION_SEC; ) {
    const middle = (oldest + above) / 2;
    if (await isOlderThan(middle)) oldest = middle;
    else above = middle;
  }
  return oldest;
};
