// An attributed event as a row of the analytics table.

import type { NativeType, NativeValue } from "../../infra/clickhouse/native.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { marks, type Recorded, type Table } from "../../stream/flow.ts";
import { minutesOf, rollupMarks } from "./rollup-marks.ts";

type Value = NativeValue;

/** The key by name, and all columns by position, in the order of `eventColumns`. */
export interface EventRow {
  readonly client_id: number;
  readonly ts: number;
  readonly event_id: string;
  readonly values: readonly Value[];
}

/**
 * In the order in which `eventRows` lists the values. `stored_at` and `rank` are the store's own.
 */
export const eventColumns = {
  client_id: "UInt32",
  event_id: "UUID",
  ts: "DateTime64(3, 'UTC')",
  version: "UInt32",
  merged_into: "Nullable(UUID)",
  received_at: "DateTime64(3, 'UTC')",
  sender_event_id: "Nullable(String)",
  did: "String",
  t: "String",
  custom_name: "Nullable(String)",
  source: "String",
  client_side: "Bool",
  url: "Nullable(String)",
  ref: "Nullable(String)",
  ip: "Nullable(String)",
  ua: "Nullable(String)",
  ip_source: "Nullable(String)",
  ua_source: "Nullable(String)",
  sid: "Nullable(String)",
  click_id: "Nullable(String)",
  consent: "UInt8",
  consent_given: "UInt8",
  order_id: "Nullable(String)",
  product_id: "Nullable(String)",
  product_line: "Nullable(String)",
  quantity: "Nullable(Int32)",
  value_minor: "Nullable(Int64)",
  currency: "Nullable(String)",
  partner_ref: "Nullable(String)",
  dedup_key: "Nullable(String)",
  lead_key: "Nullable(String)",
  sale_hash: "Nullable(String)",
  import_id: "Nullable(String)",
  props: "String",
  warnings: "Array(String)",
  country: "Nullable(String)",
  device: "String",
  browser: "Nullable(String)",
  os: "Nullable(String)",
  is_bot: "Bool",
  geo_built: "Nullable(String)",
  enrich_errors: "Array(String)",
  fraud_score: "UInt8",
  fraud_band: "String",
  fraud_reasons: "String",
  credit_status: "String",
  credit_method: "Nullable(String)",
  credit_reason: "Nullable(String)",
  partner_id: "Nullable(UInt32)",
  campaign_id: "Nullable(UInt32)",
  link_id: "Nullable(UInt32)",
  rule_id: "Nullable(UInt32)",
  rule_version: "Nullable(UInt32)",
  clicked_at: "Nullable(DateTime64(3, 'UTC'))",
  window_days: "Nullable(UInt16)",
  candidates: "String",
  reference_as_of: "Nullable(DateTime64(3, 'UTC'))",
  batch_id: "Nullable(String)",
  region: "Nullable(String)",
  city: "Nullable(String)",
  asn: "Nullable(UInt32)",
  asn_class: "String",
  person: "Nullable(String)",
  hint_address_conversions: "Nullable(UInt32)",
  hint_click_devices: "Nullable(UInt32)",
  hint_click_country: "Nullable(String)",
  log_offset: "UInt64",
} as const satisfies Readonly<Record<string, NativeType>>;

/**
 * Columns that two readings of one log need not agree on. Hints are read across keys: a claim's
 * stand for good, another event's for 8 days.
 * `reference_as_of` says that Postgres was away when credit was decided; when it is decided again,
 * Postgres is there.
 */
export const volatileEventColumns: readonly string[] = [
  "received_at",
  "stored_at",
  "batch_id",
  "hint_address_conversions",
  "hint_click_devices",
  "hint_click_country",
  "log_offset",
  "reference_as_of",
];

/**
 * Consent to analytics, the lowest bit of the mask. Without it only these are stored, and without
 * what tells a visitor's way and device.
 */
const ANALYTICS = 0x01;
const storedAnyway: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

/** Most events have no reasons and no candidates. */
const json = (items: readonly object[]): string => (items.length === 0 ? "[]" : JSON.stringify(items));

/**
 * One row a version; none where consent to analytics is missing and the event is neither order,
 * lead nor install (docs/design/contracts.md, "Consent").
 */
export const eventRows = ({ data, receivedAt, position }: Recorded<EventAttributed>): readonly EventRow[] => {
  const { event, enrichment, fraud, credit } = data;
  const isSeen = (enrichment.consent & ANALYTICS) !== 0;
  if (!isSeen && !storedAnyway.has(event.t)) return [];
  return [
    {
      client_id: event.client_id,
      ts: event.ts,
      event_id: event.event_id,
      values: [
        event.client_id,
        event.event_id,
        event.ts,
        data.version,
        data.merged_into,
        receivedAt,
        event.sender_event_id,
        event.did,
        event.t,
        event.custom_name,
        event.source,
        event.client_side,
        isSeen ? event.url : null,
        isSeen ? event.ref : null,
        isSeen ? event.ip : null,
        isSeen ? event.ua : null,
        event.ip_source,
        event.ua_source,
        event.sid,
        event.click_id,
        enrichment.consent,
        event.consent,
        event.order_id,
        event.product_id,
        event.product_line,
        event.quantity,
        event.value_minor === null ? null : event.value_minor.toString(),
        event.currency,
        event.partner_ref,
        event.dedup_key,
        event.lead_key,
        event.sale_hash,
        event.import_id,
        event.props,
        event.warnings,
        enrichment.country,
        enrichment.device,
        enrichment.browser,
        enrichment.os,
        enrichment.is_bot,
        enrichment.geo_built,
        enrichment.errors,
        fraud.score,
        fraud.band,
        json(fraud.reasons),
        credit.status,
        credit.method,
        credit.reason,
        credit.partner_id,
        credit.campaign_id,
        credit.link_id,
        credit.rule_id,
        credit.rule_version,
        credit.clicked_at,
        credit.window_days,
        json(credit.candidates),
        credit.reference_as_of,
        event.batch_id,
        isSeen ? enrichment.region : null,
        isSeen ? enrichment.city : null,
        isSeen ? enrichment.asn : null,
        enrichment.asn_class,
        isSeen ? enrichment.person : null,
        fraud.hints?.address_conversions ?? null,
        fraud.hints?.click_devices ?? null,
        fraud.hints?.click_country ?? null,
        position.offset,
      ],
    },
  ];
};

/**
 * The newest version of an event wins, of equal versions the later one in the log, whatever comes
 * in which order. `ts` is part of the key by its hour.
 */
export const events: Table<EventRow> = {
  name: "events",
  store: "clickhouse",
  key: ["client_id", "ts", "event_id"],
  tenantOf: (row) => row.client_id,
  write: (rows, write) =>
    write(
      "events",
      rows.map((row) => row.values),
    ),
  marks: marks(minutesOf, rollupMarks),
};
