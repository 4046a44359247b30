// Devices that chose, each marked once a write: figures of what they did are counted again.
import {
  bigint,
  computed,
  givenRows,
  int,
  listOf,
  type StoredRow,
  storedFrom,
  text,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";

const given = { client_id: int, did: text };
/** The sequence rises with every choice. */
export const consentMarkColumns = { ...given, sequence: computed(bigint, "nextval('rollup_mark_sequence')") };
type ChosenDevice = WrittenRow<typeof given>;
export type ConsentMark = StoredRow<typeof consentMarkColumns>;

/** Each device of each client once. */
export const devicesOf = (rows: readonly ChosenDevice[]): readonly ChosenDevice[] => [
  ...new Map(rows.map(({ client_id, did }) => [`${client_id}:${did}`, { client_id, did }])).values(),
];

const touch = `
insert into consent_marks (${listOf(consentMarkColumns)})
select ${storedFrom(consentMarkColumns)}
from ${givenRows(given)}
order by client_id, did
on conflict (client_id, did) do update set sequence = excluded.sequence`;

export const consentMarks = postgresTable<ChosenDevice>(
  { name: "consent_marks", key: ["client_id", "did"], columns: consentMarkColumns },
  [touch],
);
