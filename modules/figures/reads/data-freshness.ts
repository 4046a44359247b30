// Computes how old the data on dashboards is, from the positions in the log, the rollup marks and
// the newest event of each client.
import { productSales } from "../../../sinks/product-sales/table.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import type { Backlog } from "../../base/outbox/outbox.ts";
import type { Positions } from "./positions.ts";
import { STALE_MS } from "./stamp.ts";

const sales = sinkInto(pipeline, productSales);
const DEGRADED_SEC = 60;
const DOWN_SEC = 900;

type Status = "ok" | "degraded" | "down";
const statusOf = (seconds: number): Status =>
  seconds > DOWN_SEC ? "down" : seconds > DEGRADED_SEC ? "degraded" : "ok";

interface FreshnessInput {
  readonly marks: Backlog;
  /** Undefined: the log has never been reached. */
  readonly positions: Positions | undefined;
  /** The newest event by client. */
  readonly newest: ReadonlyMap<number, UnixMs>;
  readonly now: UnixMs;
}

/**
 * Returns the ages. A stage without lag has age 0. Positions that were read some time ago age with
 * the clock, so that data does not look fresh while the log is unreachable.
 */
export const freshnessOf = ({ marks, positions, newest, now }: FreshnessInput) => {
  const since = positions === undefined ? 0 : Math.max(0, Math.floor((now - positions.at) / 1_000));
  const aged = since > DEGRADED_SEC ? since : 0;
  const stages = (positions?.stages ?? []).map(({ name, lag, age_sec }) => {
    const age = lag > 0 || aged > 0 ? age_sec + since : 0;
    return { name, lag, age_sec: age, status: statusOf(age) };
  });
  const order: readonly Status[] = ["ok", "degraded", "down"];
  const worst = stages.reduce((all, { status }) => Math.max(all, order.indexOf(status)), 0);
  const last = newest.size === 0 ? null : Math.max(...newest.values());
  return {
    last_event_at: last,
    aggregation_lag_sec: Math.round(marks.seconds),
    relational_sync_lag_sec: stages.find(({ name }) => name === sales.name)?.age_sec ?? null,
    pipeline: { status: positions === undefined ? "down" : order[worst]!, stages },
    stale: last === null || now - last > STALE_MS,
  };
};
