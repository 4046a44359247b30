// What every route with figures asks first: the span, the one before it, and how fresh it all is.
import { dayOf, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import { derive } from "../../../domain/derive.ts";
import { unavailable } from "../../../infra/http/problem.ts";
import { type MonthOfYear, spanOfMonth } from "../../../modules/catalog/budgets/pace.ts";
import { type Periods, periodsOf } from "../../../modules/figures/reads/periods.ts";
import { newestEvents } from "../../../modules/figures/rollups/rollup-reads.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { ApiPorts } from "../route.ts";
import { type Stamp, spanOf, stampOf } from "./range.ts";

/** Longer than this a screen does not wait: no answer rather than a part of one. */
export const FIGURES_MS = 2_000;

export interface DaysQuery {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}
export interface Frame {
  readonly now: UnixMs;
  readonly periods: Periods;
  /** Undefined: the log has never answered, and what is stored alone says how fresh figures are. */
  readonly asOf: UnixMs | undefined;
}

export const frameOf = async ({ positions }: Pick<ApiPorts, "positions">, query: DaysQuery): Promise<Frame> => {
  const now = Date.now();
  const asOf = await positions.asOf().catch(() => {
    throw unavailable("how fresh the figures are is not known now", 2);
  });
  return { now, periods: periodsOf(spanOf(query, now), asOf ?? now, now), asOf };
};

/** The first and the last day of a month. */
export const daysOfMonth = (month: MonthOfYear): Required<DaysQuery> => {
  const { from, to } = spanOfMonth(month);
  return { from: dayOf(from), to: dayOf(to - 1) };
};

/** The stamp of figures of these clients. Throws Problem 503. */
export const stampFor = async (
  { clickhouse }: Pick<ApiPorts, "clickhouse">,
  { now, periods, asOf }: Frame,
  clients: readonly number[],
): Promise<Stamp> => {
  const newest = await orAway(newestEvents(clickhouse, clients, FIGURES_MS));
  const last = newest.size === 0 ? null : Math.max(...newest.values());
  return stampOf(now, asOf ?? last ?? periods.current.from, last, dayOf(periods.current.to - 1));
};

/** The same for good: a hash that was shown in a dispute can be made again. */
export const receiptKeyOf = ({ keyring }: Pick<ApiPorts, "keyring">): Buffer => derive(keyring.pepper, "api.receipt");

/** What the analytics store answers. Throws Problem 503, never a partial sum. */
export const orAway = <T>(work: Promise<T>): Promise<T> =>
  work.catch(() => {
    throw unavailable("the figures cannot be read now", 2);
  });

/** Whether the days before are kept whole: events older than so many months are forgotten. */
export const isKept = ({ previous }: Periods, months: number, now: UnixMs): boolean =>
  previous.from >= startOfDay(monthsAfter(dayOf(now), -months));
