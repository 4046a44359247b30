// The analytics table, with one row for each version of an attributed event.

import {
  columnsOf,
  type DeclaredColumn,
  type StoredTable,
  type WrittenValues,
} from "../../infra/clickhouse/columns.ts";
import { type Sources, sourcesOf } from "../../infra/clickhouse/sources.ts";
import { transcoder } from "../../infra/clickhouse/transcode.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { marks, type Recorded } from "../../stream/flow.ts";
import { minutesOf, rollupMarks } from "../rollup-marks/table.ts";
import { clickhouseTable } from "../stores/clickhouse.ts";
import { columnsOfRecords, eventColumns, fieldSources } from "./generated.ts";

const { made } = sourcesOf<EventAttributed>();

export const eventSources: Sources<EventAttributed, typeof eventColumns> = {
  ...fieldSources,
  received_at: made(({ receivedAt }) => receivedAt),
  log_offset: made(({ position }) => position.offset),
};

/** The key by name, all columns by position, and the event that they are read from. */
export interface EventRow {
  readonly event: Recorded<EventAttributed>;
  readonly client_id: number;
  readonly ts: number;
  readonly event_id: string;
  readonly values: WrittenValues<typeof eventColumns>;
}

/** The written columns, and the one that the store fills in. */
const storedEventColumns = [
  ...eventColumns,
  { name: "stored_at", type: "DateTime64(3, 'UTC')", volatile: "when the row was written" },
] as const satisfies readonly DeclaredColumn[];

/** The columns that a query on `events` or `events_current` may list. */
export const eventReads = columnsOf(storedEventColumns);

/** The columns with the results of scoring and attribution. */
export const foundColumns = [...columnsOfRecords.fraud, ...columnsOfRecords.credit] as const;

/** The fate of each event of a request. A view fills this table from `events`. */
const receipts: StoredTable = {
  name: "receipts",
  key: ["client_id", "event_id"],
  columns: ["client_id", "ts", "event_id", "batch", "fate"].map((name) => ({ name })),
  // An expired row disappears with the next merge of its part, at no fixed time.
  where:
    "toDateTime(toUInt32(intDiv(reinterpretAsUInt64(reverse(substring(batch, 1, 6))), 1000)), 'UTC') " +
    "+ interval 32 day > now()",
};

/**
 * The newest version of an event wins, and of equal versions the one later in the log, whatever the
 * order of arrival. `ts` is part of the key by its hour.
 */
export const events = clickhouseTable<EventRow>(
  {
    name: "events",
    key: ["client_id", "ts", "event_id"],
    columns: eventColumns,
    comparedBy: ["client_id", "event_id"],
    fills: [receipts],
  },
  marks(minutesOf, rollupMarks),
  transcoder(eventColumns, eventSources),
);
