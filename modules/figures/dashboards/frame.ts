// The frame of every dashboard: the days asked for, the days before them, and how fresh the stores
// are.
import { dayOf, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Days, spanOf } from "../../base/days.ts";
import { type Periods, periodsOf } from "../reads/periods.ts";
import type { PositionReads } from "../reads/positions.ts";
import { type Stamp, stampOf } from "../reads/stamp.ts";
import { FIGURES_MS, figuresAway, orAway } from "../reads/time-limit.ts";
import { newestEvents } from "../rollups/rollup-reads.ts";

export interface FigureStores {
  readonly clickhouse: Clickhouse;
  readonly positions: PositionReads;
}

export interface Frame {
  readonly now: UnixMs;
  readonly periods: Periods;
  /** Undefined: the log was never reached, and only stored events say how fresh figures are. */
  readonly asOf: UnixMs | undefined;
}

/** Throws Unavailable, and RefusalError as `spanOf` does. */
export const frameOf = async ({ positions }: Pick<FigureStores, "positions">, days: Days): Promise<Frame> => {
  const now = Date.now();
  const asOf = await positions.asOf().catch(figuresAway("how fresh the figures are is not known now"));
  return { now, periods: periodsOf(spanOf(days, now), asOf ?? now, now), asOf };
};

/** The stamp of figures of these clients. Throws Unavailable. */
export const stampFor = async (
  { clickhouse }: Pick<FigureStores, "clickhouse">,
  { now, periods, asOf }: Frame,
  clients: readonly number[],
): Promise<Stamp> => {
  const newest = await orAway(newestEvents(clickhouse, clients, FIGURES_MS));
  const last = newest.size === 0 ? null : Math.max(...newest.values());
  return stampOf(now, asOf ?? last ?? periods.current.from, last, dayOf(periods.current.to - 1));
};

/** Whether all events of the previous period are stored: older ones are deleted. */
export const isKept = ({ previous }: Periods, retentionMonths: number, now: UnixMs): boolean =>
  previous.from >= startOfDay(monthsAfter(dayOf(now), -retentionMonths));
