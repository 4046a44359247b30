// The series of a worker: what its stages and sinks may count, known before anything happens.
import type { ExpectedSeries } from "../../infra/runtime/metric-counts.ts";
import type { Group } from "../../modules/log/groups/hosting.ts";
import type { RetriedStep } from "../../stream/ports.ts";

/** Why a stage rejects an event; tests/operations/alerts.test.ts compares it with the sources. */
export const rejectReasons: Readonly<Record<string, readonly string[]>> = {
  settle: ["order_too_large", "id_conflict"],
};
const STEPS: readonly RetriedStep[] = ["record", "learn", "load", "remember", "produce", "write", "commit"];

export const seriesOf = (groups: readonly Group[]): ExpectedSeries => ({
  chains: groups.flatMap((group) => (group.is === "chain" ? [group.chain.name] : [])),
  stages: groups.flatMap((group) =>
    group.is !== "chain"
      ? []
      : group.chain.hosted.map(({ stage: { name } }) => ({ stage: name, rejects: rejectReasons[name] ?? [] })),
  ),
  sinks: groups.flatMap((group) => {
    if (group.is === "chain") return [];
    const sinks = group.is === "sinks" ? group.sinks : [group.copy];
    return sinks.map(({ name, into }) => ({ sink: name, table: into.name }));
  }),
  steps: STEPS,
  hints: ["members", "answers", "keys"],
});
