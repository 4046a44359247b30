// Waits until a state hash is meaningful: nothing in progress can change a table any more.
import { setTimeout as sleep } from "node:timers/promises";
import { type Topology, writesRows } from "../../../stream/flow.ts";
import { waitingRollups } from "../../figures/rollups/rollup-marks.ts";
import { groupsNow } from "../../log/groups/group-reads.ts";
import type { RewindSources } from "../../log/rewind/rewind-ports.ts";

const ASKED_EVERY_MS = 1_000;

/** Stages, and sinks that write rows. The archive waits for its next file and fills no table. */
const changesTables = (node: Topology["nodes"][number]): boolean =>
  node.is === "stage" || (node.is === "sink" && writesRows(node));

/**
 * Resolves with true once every group has read everything and every rollup is computed; with false
 * when that takes longer.
 */
export const untilSettled = async (
  ports: Pick<RewindSources, "pool" | "kafka" | "admin" | "topology">,
  withinMs: number,
): Promise<boolean> => {
  const end = performance.now() + withinMs;
  const names = new Set(ports.topology.nodes.filter(changesTables).map(({ name }) => name));
  for (;;) {
    const groups = (await groupsNow(ports, Date.now())).filter(({ nodes }) => nodes.some((name) => names.has(name)));
    const lag = groups.reduce((sum, group) => sum + group.lag, 0);
    if (lag === 0 && (await waitingRollups(ports.pool)).count === 0) return true;
    if (performance.now() > end) return false;
    await sleep(ASKED_EVERY_MS);
  }
};
