// Decides which time dates the money of a sale. The clock of a sender does not choose contract,
// month, cap and hold alone.
import type { UnixMs } from "../stream/flow.ts";

/** Older times of a visitor's own device count only for the order within the visit. */
const CLIENT_CLOCK_MS = 10 * 60_000;
const HOUR_MS = 3_600_000;
/** For a client without reference data: the default of a new client. */
export const DEFAULT_LATE_HOURS = 72;
/** 24 months: older events are refused. */
export const MOST_LATE_HOURS = 17_568;

/** Files and pulls tell of the past, so their times count as long as the month is open. */
const OF_THE_PAST: ReadonlySet<string> = new Set(["upload", "pull"]);

/** Why the time is not the sender's. */
type TimeReason = "ts_before_click" | "client_clock" | "late_event";
export interface MoneyTime {
  readonly at: UnixMs;
  readonly by: "event" | "click" | "receipt";
  /** Null if the sender's time counts. */
  readonly because: TimeReason | null;
}

export interface TimesOfSale {
  /** The sender's time, at most that of the receipt. */
  readonly at: UnixMs;
  readonly receivedAt: UnixMs;
  /** The time of the click that the event carries. Null if it carries none of ours. */
  readonly clickedAt: UnixMs | null;
  readonly source: string;
  /** The visitor's own device sent it. */
  readonly isClientSide: boolean;
  /** How old the time of a server may be. */
  readonly lateHours: number;
  /** True if the month of this time is closed, as known at receipt. */
  readonly isClosed: (at: UnixMs) => boolean;
}

/** The time of the money is never before the click that the sale carries, nor after its receipt. */
export const moneyTime = (sale: TimesOfSale): MoneyTime => {
  const { at: said, receivedAt, clickedAt } = sale;
  const isBeforeClick = clickedAt !== null && said < clickedAt && clickedAt <= receivedAt;
  const at = isBeforeClick ? clickedAt : said;
  const late = whyLate(sale, at);
  if (late !== null) return { at: receivedAt, by: "receipt", because: late };
  return isBeforeClick ? { at, by: "click", because: "ts_before_click" } : { at, by: "event", because: null };
};

const whyLate = (
  { receivedAt, source, isClientSide, lateHours, isClosed }: TimesOfSale,
  at: UnixMs,
): TimeReason | null => {
  if (OF_THE_PAST.has(source)) return isClosed(at) ? "late_event" : null;
  if (isClientSide) return receivedAt - at > CLIENT_CLOCK_MS ? "client_clock" : null;
  return receivedAt - at > lateHours * HOUR_MS ? "late_event" : null;
};

/**
 * The event time of a row. The `at` of a sale's row is that of its money, which is never earlier
 * and never later than its receipt.
 */
export const eventTimeOf = ({
  at,
  data,
}: {
  readonly at: UnixMs;
  readonly data: { readonly event: { readonly ts: UnixMs } };
}): UnixMs => Math.min(at, data.event.ts);
