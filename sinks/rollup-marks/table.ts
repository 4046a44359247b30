// The table of minutes whose rollups have to be computed again.
import { type StoredRow, time } from "../../infra/postgres/columns.ts";
import { type MarkOf, markTable } from "../stores/mark-table.ts";

/** `minute` is its first millisecond; `marked_at` stays: it is the oldest touch that waits. */
const touched = { minute: time };
export const { table: rollupMarks, columns: markColumns } = markTable("rollup_marks", touched);
export type TouchedMinute = MarkOf<typeof touched>;
export type StoredMark = StoredRow<typeof markColumns>;
