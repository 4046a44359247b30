// Counts accepted events that are not reported yet: the records between the log and the tables that
// reports read.
import { setTimeout as sleep } from "node:timers/promises";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { ledger } from "../../../sinks/ledger/table.ts";
import { productSales } from "../../../sinks/product-sales/table.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { type Hop, type Hosts, hopsTo } from "../../log/groups/hosts.ts";

const ASKED_EVERY_MS = 200;

type LogPositions = Pick<Admin, "watermarks" | "committed">;

/** The groups that a sale passes into the tables of reports, in the order of the flow. */
const hopsToReports = (hosts: Hosts): readonly Hop[] => {
  const sinks = [sinkInto(pipeline, productSales), sinkInto(pipeline, ledger)];
  const hops = sinks.flatMap((sink) => hopsTo(pipeline, sink, hosts));
  return hops.filter(
    (hop, n) => n === hops.findIndex(({ group, topic }) => group === hop.group && topic === hop.topic),
  );
};

const behind = async (asked: LogPositions, { group, topic }: Hop): Promise<number> => {
  const [marks, committed] = await Promise.all([asked.watermarks(topic), asked.committed(group, topic)]);
  return marks.reduce(
    (sum, { partition, low, high }) => sum + Math.max(0, high - Math.max(low, committed.get(partition) ?? low)),
    0,
  );
};

/**
 * Counts records that these groups have not read yet. An event is in one place at a time; it counts
 * twice only while both its stored row and its money wait.
 */
export const onTheWay = async (asked: LogPositions, hosts: Hosts): Promise<number> => {
  const counts = await Promise.all(hopsToReports(hosts).map((hop) => behind(asked, hop)));
  return counts.reduce((sum, count) => sum + count, 0);
};

/**
 * Resolves with true once everything in the log at the time of the call is stored, with false when
 * that takes longer than `withinMs`. Later events may still be in transit then.
 */
export const waitUntilCounted = async (asked: LogPositions, hosts: Hosts, withinMs: number): Promise<boolean> => {
  const end = performance.now() + withinMs;
  for (const { group, topic } of hopsToReports(hosts)) {
    const marks = (await asked.watermarks(topic)).filter(({ low, high }) => high > low);
    for (;;) {
      const committed = marks.length === 0 ? new Map<number, number>() : await asked.committed(group, topic);
      if (marks.every(({ partition, high }) => (committed.get(partition) ?? -1) >= high)) break;
      if (performance.now() > end) return false;
      await sleep(ASKED_EVERY_MS);
    }
  }
  return true;
};
