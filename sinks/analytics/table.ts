// The analytics table: one row a version of an attributed event.
import { columnsOf, type DeclaredColumn, type WrittenValues } from "../../infra/clickhouse/columns.ts";
import { transcoder } from "../../infra/clickhouse/transcode.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { marks, type Recorded } from "../../stream/flow.ts";
import { minutesOf } from "../rollup-marks/rows.ts";
import { rollupMarks } from "../rollup-marks/table.ts";
import { clickhouseTable } from "../stores/clickhouse.ts";
import { eventSources } from "./sources.ts";

/**
 * What is in them is said in sources.ts; `stored_at` and `rank` are filled in by the store.
 */
export const eventColumns = [
  { name: "client_id", type: "UInt32" },
  { name: "event_id", type: "UUID" },
  { name: "ts", type: "DateTime64(3, 'UTC')" },
  { name: "version", type: "UInt32" },
  { name: "merged_into", type: "Nullable(UUID)" },
  {
    name: "received_at",
    type: "DateTime64(3, 'UTC')",
    volatile: "of an event that was sent again it is that of the last reading",
  },
  { name: "sender_event_id", type: "Nullable(String)" },
  { name: "did", type: "String" },
  { name: "t", type: "String" },
  { name: "custom_name", type: "Nullable(String)" },
  { name: "source", type: "String" },
  { name: "client_side", type: "Bool" },
  { name: "url", type: "Nullable(String)" },
  { name: "ref", type: "Nullable(String)" },
  { name: "ip", type: "Nullable(String)" },
  { name: "ua", type: "Nullable(String)" },
  { name: "ip_source", type: "Nullable(String)" },
  { name: "ua_source", type: "Nullable(String)" },
  { name: "sid", type: "Nullable(String)" },
  { name: "click_id", type: "Nullable(String)" },
  { name: "consent", type: "UInt8" },
  { name: "consent_given", type: "UInt8" },
  { name: "order_id", type: "Nullable(String)" },
  { name: "product_id", type: "Nullable(String)" },
  { name: "product_line", type: "Nullable(String)" },
  { name: "quantity", type: "Nullable(Int32)" },
  { name: "value_minor", type: "Nullable(Int64)" },
  { name: "currency", type: "Nullable(String)" },
  { name: "partner_ref", type: "Nullable(String)" },
  { name: "dedup_key", type: "Nullable(String)" },
  { name: "lead_key", type: "Nullable(String)" },
  { name: "sale_hash", type: "Nullable(String)" },
  { name: "import_id", type: "Nullable(String)" },
  { name: "props", type: "String" },
  { name: "warnings", type: "Array(String)" },
  { name: "country", type: "Nullable(String)" },
  { name: "device", type: "String" },
  { name: "browser", type: "Nullable(String)" },
  { name: "os", type: "Nullable(String)" },
  { name: "is_bot", type: "Bool" },
  { name: "geo_built", type: "Nullable(String)" },
  { name: "enrich_errors", type: "Array(String)" },
  { name: "fraud_score", type: "UInt8" },
  { name: "fraud_band", type: "String" },
  { name: "fraud_reasons", type: "String" },
  { name: "credit_status", type: "String" },
  { name: "credit_method", type: "Nullable(String)" },
  { name: "credit_reason", type: "Nullable(String)" },
  { name: "partner_id", type: "Nullable(UInt32)" },
  { name: "campaign_id", type: "Nullable(UInt32)" },
  { name: "link_id", type: "Nullable(UInt32)" },
  { name: "rule_id", type: "Nullable(UInt32)" },
  { name: "rule_version", type: "Nullable(UInt32)" },
  { name: "clicked_at", type: "Nullable(DateTime64(3, 'UTC'))" },
  { name: "window_days", type: "Nullable(UInt16)" },
  { name: "candidates", type: "String" },
  {
    name: "reference_as_of",
    type: "Nullable(DateTime64(3, 'UTC'))",
    volatile: "Postgres was away when credit was decided; when it is decided again, Postgres is there",
  },
  { name: "batch_id", type: "Nullable(String)", volatile: "the request that the last reading came in" },
  { name: "region", type: "Nullable(String)" },
  { name: "city", type: "Nullable(String)" },
  { name: "asn", type: "Nullable(UInt32)" },
  { name: "asn_class", type: "String" },
  { name: "person", type: "Nullable(String)" },
  {
    name: "hint_address_conversions",
    type: "Nullable(UInt32)",
    volatile: "hints are read across keys: a claim keeps its own for good, another event for 8 days",
  },
  { name: "hint_click_devices", type: "Nullable(UInt32)", volatile: "as hint_address_conversions" },
  { name: "hint_click_country", type: "Nullable(String)", volatile: "as hint_address_conversions" },
  { name: "log_offset", type: "UInt64", volatile: "an event that was sent again lies at several" },
] as const satisfies readonly DeclaredColumn[];

/** The key by name, all columns by position, and what they are read from. */
export interface EventRow {
  readonly event: Recorded<EventAttributed>;
  readonly client_id: number;
  readonly ts: number;
  readonly event_id: string;
  readonly values: WrittenValues<typeof eventColumns>;
}

/** Those that are written, and the one that the store fills in. */
export const storedEventColumns = [
  ...eventColumns,
  { name: "stored_at", type: "DateTime64(3, 'UTC')", volatile: "when the row was written" },
] as const satisfies readonly DeclaredColumn[];

/** What a query on `events` or `events_current` may list. */
export const eventReads = columnsOf(storedEventColumns);

/** What scoring and attribution found. */
export const foundColumns = [
  "fraud_score",
  "fraud_band",
  "fraud_reasons",
  "credit_status",
  "credit_method",
  "credit_reason",
  "partner_id",
  "campaign_id",
  "link_id",
  "rule_id",
  "rule_version",
  "clicked_at",
  "window_days",
  "candidates",
  "reference_as_of",
] as const;

/** What became of the events of a request; a view fills it from `events`. */
export const receiptColumns = ["client_id", "ts", "event_id", "batch", "fate"].map((name) => ({ name }));

/**
 * The newest version of an event wins, of equal versions the later one in the log, whatever comes
 * in which order. `ts` is part of the key by its hour.
 */
export const events = clickhouseTable<EventRow>(
  { name: "events", key: ["client_id", "ts", "event_id"], columns: eventColumns },
  marks(minutesOf, rollupMarks),
  transcoder(eventColumns, eventSources),
);
