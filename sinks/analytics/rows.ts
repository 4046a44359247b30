// An attributed event as a row of the analytics table.
import type { Candidate, EventAttributed, FraudReason } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { EventRow } from "./table.ts";

/**
 * Consent to analytics, the lowest bit of the mask. Without it only these are stored, and without
 * what shows a visitor's way and device.
 */
const ANALYTICS = 0x01;
const storedAnyway: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

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
        reasonsAsJson(fraud.reasons),
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
        candidatesAsJson(credit.candidates),
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
