// Where each column of the analytics table comes from.
import { type Sources, sourcesOf } from "../../infra/clickhouse/sources.ts";
import type { Candidate, EventAttributed, FraudReason } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { eventColumns } from "./columns.ts";

/** Consent to analytics, the lowest bit of the mask. */
const ANALYTICS = 0x01;
/** Without it an event shows nothing of its visitor's way and device. */
export const isSeen = ({ data }: Recorded<EventAttributed>): boolean => (data.enrichment.consent & ANALYTICS) !== 0;

/**
 * JSON of a list; most events have no reasons and no candidates. Fields are named, so that one that
 * is added to a schema changes no row of before.
 */
const reasonsAsJson = (reasons: readonly FraudReason[]): string =>
  reasons.length === 0
    ? "[]"
    : JSON.stringify(reasons.map(({ code, weight, evidence }) => ({ code, weight, evidence })));
const candidatesAsJson = (candidates: readonly Candidate[]): string =>
  candidates.length === 0
    ? "[]"
    : JSON.stringify(
        candidates.map(({ method, reference, partner_id, campaign_id, outcome }) => ({
          method,
          reference,
          partner_id,
          campaign_id,
          outcome,
        })),
      );

const { field, fieldWhen, made } = sourcesOf<EventAttributed>();

export const eventSources: Sources<EventAttributed, typeof eventColumns> = {
  client_id: field("event.client_id"),
  event_id: field("event.event_id"),
  ts: field("event.ts"),
  version: field("version"),
  merged_into: field("merged_into"),
  received_at: made(({ receivedAt }) => receivedAt),
  sender_event_id: field("event.sender_event_id"),
  did: field("event.did"),
  t: field("event.t"),
  custom_name: field("event.custom_name"),
  source: field("event.source"),
  client_side: field("event.client_side"),
  url: fieldWhen(isSeen, "event.url"),
  ref: fieldWhen(isSeen, "event.ref"),
  ip: fieldWhen(isSeen, "event.ip"),
  ua: fieldWhen(isSeen, "event.ua"),
  ip_source: field("event.ip_source"),
  ua_source: field("event.ua_source"),
  sid: field("event.sid"),
  click_id: field("event.click_id"),
  consent: field("enrichment.consent"),
  consent_given: field("event.consent"),
  order_id: field("event.order_id"),
  product_id: field("event.product_id"),
  product_line: field("event.product_line"),
  quantity: field("event.quantity"),
  value_minor: field("event.value_minor"),
  currency: field("event.currency"),
  partner_ref: field("event.partner_ref"),
  dedup_key: field("event.dedup_key"),
  lead_key: field("event.lead_key"),
  sale_hash: field("event.sale_hash"),
  import_id: field("event.import_id"),
  props: field("event.props"),
  warnings: field("event.warnings"),
  country: field("enrichment.country"),
  device: field("enrichment.device"),
  browser: field("enrichment.browser"),
  os: field("enrichment.os"),
  is_bot: field("enrichment.is_bot"),
  geo_built: field("enrichment.geo_built"),
  enrich_errors: field("enrichment.errors"),
  fraud_score: field("fraud.score"),
  fraud_band: field("fraud.band"),
  fraud_reasons: made(({ data }) => reasonsAsJson(data.fraud.reasons)),
  credit_status: field("credit.status"),
  credit_method: field("credit.method"),
  credit_reason: field("credit.reason"),
  partner_id: field("credit.partner_id"),
  campaign_id: field("credit.campaign_id"),
  link_id: field("credit.link_id"),
  rule_id: field("credit.rule_id"),
  rule_version: field("credit.rule_version"),
  clicked_at: field("credit.clicked_at"),
  window_days: field("credit.window_days"),
  candidates: made(({ data }) => candidatesAsJson(data.credit.candidates)),
  reference_as_of: field("credit.reference_as_of"),
  batch_id: field("event.batch_id"),
  region: fieldWhen(isSeen, "enrichment.region"),
  city: fieldWhen(isSeen, "enrichment.city"),
  asn: fieldWhen(isSeen, "enrichment.asn"),
  asn_class: field("enrichment.asn_class"),
  person: fieldWhen(isSeen, "enrichment.person"),
  hint_address_conversions: field("fraud.hints.address_conversions"),
  hint_click_devices: field("fraud.hints.click_devices"),
  hint_click_country: field("fraud.hints.click_country"),
  log_offset: made(({ position }) => position.offset),
};
