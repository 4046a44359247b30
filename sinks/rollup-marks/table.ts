// The table of minutes whose rollups have to be computed again.
import {
  bigint,
  computed,
  givenRows,
  int,
  listOf,
  type StoredRow,
  storedFrom,
  time,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";

/** `minute` is its first millisecond. */
const given = { client_id: int, minute: time };
/** The sequence rises with every touch. */
export const markColumns = { ...given, sequence: computed(bigint, "nextval('rollup_mark_sequence')") };
export type TouchedMinute = WrittenRow<typeof given>;
export type StoredMark = StoredRow<typeof markColumns>;

/** `marked_at` stays: it is the oldest touch that waits. */
const touch = `
insert into rollup_marks (${listOf(markColumns)})
select ${storedFrom(markColumns)}
from ${givenRows(given)}
order by client_id, minute
on conflict (client_id, minute) do update set sequence = excluded.sequence`;

export const rollupMarks = postgresTable<TouchedMinute>(
  { name: "rollup_marks", key: ["client_id", "minute"], columns: markColumns },
  [touch],
);
