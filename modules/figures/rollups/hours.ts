// The client hours that marks lie in, as lists of numbers for a statement.
import type { RollupMark } from "./rollup-marks.ts";

/** Seconds. */
export const HOUR = 3_600;
/** A client and the first second of an hour. */
export type HourOf = readonly [client: number, hour: number];

export const secondsOf = (ms: number): number => Math.trunc(ms / 1_000);
export const hourOf = (ms: number): number => Math.floor(secondsOf(ms) / HOUR) * HOUR;
export const tuples = (rows: readonly (readonly (number | bigint)[])[]): string =>
  rows.map((row) => `(${row.join(", ")})`).join(", ");

const distinct = (given: readonly HourOf[]): readonly HourOf[] => [
  ...new Map(given.map((one): [string, HourOf] => [one.join("/"), one])).values(),
];

/** Returns each touched hour of each client once. */
export const hoursOf = (marks: readonly Pick<RollupMark, "client_id" | "minute">[]): readonly HourOf[] =>
  distinct(marks.map(({ client_id, minute }) => [client_id, hourOf(minute)]));

/** Returns these hours and the hour after each, once. */
export const withNext = (hours: readonly HourOf[]): readonly HourOf[] =>
  distinct(
    hours.flatMap(([client, hour]): readonly HourOf[] => [
      [client, hour],
      [client, hour + HOUR],
    ]),
  );

/**
 * Lists buckets of `step` seconds, `from` to `to` around each hour, one by one, because ClickHouse
 * uses the sort key only for listed values.
 */
export const listed = (hours: readonly HourOf[], from: number, to: number, step: number): string =>
  tuples(
    distinct(
      hours.flatMap(([client, hour]) =>
        Array.from({ length: (to - from) / step }, (_, n): HourOf => [client, hour + from + n * step]),
      ),
    ),
  );
