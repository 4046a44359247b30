// Devices that chose, each marked once a write: figures of what they did are counted again.
import { type StoredRow, text } from "../../infra/postgres/columns.ts";
import { type MarkOf, markTable } from "../stores/mark-table.ts";

const device = { did: text };
export const { table: consentMarks, columns: consentMarkColumns } = markTable("consent_marks", device);
type ChosenDevice = MarkOf<typeof device>;
export type ConsentMark = StoredRow<typeof consentMarkColumns>;

/** Each device of each client once. */
export const devicesOf = (rows: readonly ChosenDevice[]): readonly ChosenDevice[] => [
  ...new Map(rows.map(({ client_id, did }) => [`${client_id}:${did}`, { client_id, did }])).values(),
];
