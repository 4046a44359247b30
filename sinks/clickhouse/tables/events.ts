// sinks/clickhouse/tables/events.ts - an attributed event as a row of the analytics table.
import type { EventAttributed } from "../../../schemas/generated.ts";
import { marks, type Recorded, type Table } from "../../../stream/flow.ts";
import { minutesOf, rollupMarks } from "../../postgres/tables/rollup-marks.ts";

type Value = string | number | boolean | null | readonly string[];

/** The key by name, and all columns by position, in the order of `eventColumns`. */
export interface EventRow {
  readonly client_id: number;
  readonly ts: number;
  readonly event_id: string;
  readonly values: readonly Value[];
}

/** In the order in which `eventRows` lists the values. `stored_at` is the store's own. */
export const eventColumns = (
  "client_id event_id ts version merged_into received_at sender_event_id did t custom_name source client_side url ref ip ua ip_source ua_source " +
  "sid click_id consent consent_given order_id product_id product_line quantity value_minor currency partner_ref dedup_key lead_key sale_hash " +
  "import_id props warnings country device browser os is_bot geo_built enrich_errors fraud_score fraud_band fraud_reasons credit_status " +
  "credit_method credit_reason partner_id campaign_id link_id rule_id rule_version clicked_at window_days candidates reference_as_of batch_id " +
  "region city asn asn_class person hint_address_conversions hint_click_devices hint_click_country log_offset"
).split(" ");

/** Columns that two readings of one log need not agree on. Hints are read across keys: a claim's stand for good, another event's for 8 days. */
export const volatileEventColumns: readonly string[] = [
  "received_at",
  "stored_at",
  "batch_id",
  "hint_address_conversions",
  "hint_click_devices",
  "hint_click_country",
  "log_offset",
];

/** Consent to analytics, the lowest bit of the mask. Without it only these are stored, and without what tells a visitor's way and device. */
const ANALYTICS = 0x01;
const storedAnyway: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

/** Most events have no reasons and no candidates. */
const json = (items: readonly object[]): string => (items.length === 0 ? "[]" : JSON.stringify(items));

/** One row a version; none where consent to analytics is missing and the event is neither order, lead nor install (contracts.md 5). */
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

/** The newest version of an event wins, of equal versions the later one in the log, whatever comes in which order. `ts` is part of the key by its hour. */
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
