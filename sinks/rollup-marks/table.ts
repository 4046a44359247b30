// The table of minutes whose rollups must be computed again. Each write marks the minutes of its
// events once.
import { type StoredRow, time } from "../../infra/postgres/columns.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { type MarkOf, markTable } from "../stores/mark-table.ts";

/**
 * `minute` is the first millisecond of the minute. `marked_at` is not renewed: it is the time of
 * the oldest pending mark.
 */
const touched = { minute: time };
export const { table: rollupMarks, columns: markColumns } = markTable("rollup_marks", touched);
export type TouchedMinute = MarkOf<typeof touched>;
export type StoredMark = StoredRow<typeof markColumns>;

const MINUTE_MS = 60_000;

/**
 * Each minute of each client, once. It follows from `ts`, which no version of an event changes, so
 * the minute of an older version is marked too.
 */
export const minutesOf = (
  rows: readonly { readonly client_id: number; readonly ts: UnixMs }[],
): readonly TouchedMinute[] => {
  const minutes = new Map<number, Set<number>>();
  for (const { client_id, ts } of rows) {
    const minute = Math.floor(ts / MINUTE_MS);
    const own = minutes.get(client_id);
    if (own === undefined) minutes.set(client_id, new Set([minute]));
    else own.add(minute);
  }
  return [...minutes].flatMap(([client_id, own]) =>
    [...own].map((minute) => ({ client_id, minute: minute * MINUTE_MS })),
  );
};
