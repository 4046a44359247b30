// The table of consent changes: each explicit choice of a device, once, with marks for the devices
// that chose. The view `consents` returns the latest choice.

import type { DeclaredColumn, WrittenValues } from "../../infra/clickhouse/columns.ts";
import { type StoredRow, text } from "../../infra/postgres/columns.ts";
import { marks } from "../../stream/flow.ts";
import { clickhouseTable } from "../stores/clickhouse.ts";
import { type MarkOf, markTable } from "../stores/mark-table.ts";

const device = { did: text };
const { table: consentMarks, columns } = markTable("consent_marks", device);
export const consentMarkColumns = columns;
type ChosenDevice = MarkOf<typeof device>;
export type ConsentMark = StoredRow<typeof consentMarkColumns>;

/** Each device of each client, once. */
export const devicesOf = (rows: readonly ChosenDevice[]): readonly ChosenDevice[] => [
  ...new Map(rows.map(({ client_id, did }) => [`${client_id}:${did}`, { client_id, did }])).values(),
];

/** Columns in the order in which `consentRows` lists the values. */
const consentColumns = [
  { name: "client_id", type: "UInt32" },
  { name: "did", type: "String" },
  { name: "event_id", type: "UUID" },
  { name: "mask", type: "UInt8" },
  { name: "at", type: "DateTime64(3, 'UTC')" },
  { name: "log_offset", type: "UInt64", volatile: "a change that was restored lies at another" },
] as const satisfies readonly DeclaredColumn[];

/** The key by name and all columns by position. */
export interface ConsentRow {
  readonly client_id: number;
  readonly did: string;
  readonly event_id: string;
  readonly mask: number;
  readonly values: WrittenValues<typeof consentColumns>;
}

/**
 * The store keeps the smallest time and offset of each change, so a repeated change moves nothing.
 * The devices are marked afterwards, because figures about them may have to be counted again.
 */
export const consentChanges = clickhouseTable<ConsentRow>(
  { name: "consent_changes", key: ["client_id", "did", "event_id", "mask"], columns: consentColumns },
  marks(devicesOf, consentMarks),
);
