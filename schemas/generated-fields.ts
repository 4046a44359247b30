// Attributes of event fields other than types, from the schemas. Do not edit: npm run generate.
import type { Enrichment, EventReceived } from "./generated.ts";

/** What settle decides: the segment, the amount, and whether the copy's money is used. */
export interface Decisions extends Pick<EventReceived, "product_line" | "value_minor" | "currency"> {
  readonly takesMoney: boolean;
}

/**
 * The first copy of a sale with the additions of a second one. Fields that describe its sender
 * stay.
 */
export const mergedEvent = (first: EventReceived, copy: EventReceived, decided: Decisions): EventReceived => ({
  event_id: first.event_id,
  sender_event_id: first.sender_event_id,
  client_id: first.client_id,
  did: first.did,
  t: first.t,
  custom_name: first.custom_name,
  ts: first.ts,
  source: first.source,
  client_side: first.client_side,
  url: first.url ?? copy.url,
  ref: first.ref ?? copy.ref,
  ip: first.ip,
  ua: first.ua,
  ip_source: first.ip_source,
  ua_source: first.ua_source,
  sid: first.sid ?? copy.sid,
  click_id: first.click_id ?? copy.click_id,
  consent: first.consent,
  order_id: first.order_id ?? copy.order_id,
  product_id: first.product_id ?? copy.product_id,
  product_line: decided.product_line,
  quantity: decided.takesMoney ? (copy.quantity ?? first.quantity) : (first.quantity ?? copy.quantity),
  value_minor: decided.value_minor,
  currency: decided.currency,
  partner_ref: first.partner_ref ?? copy.partner_ref,
  dedup_key: first.dedup_key ?? copy.dedup_key,
  lead_key: first.lead_key ?? copy.lead_key,
  sale_hash: first.sale_hash ?? copy.sale_hash,
  import_id: first.import_id ?? copy.import_id,
  props: first.props,
  warnings: first.warnings,
  batch_id: first.batch_id,
  personal_form: first.personal_form,
  by_partner: first.by_partner,
  across: first.across,
});

export const mergedEnrichment = (first: Enrichment, copy: Enrichment): Enrichment => ({
  country: first.country ?? copy.country,
  device: first.device === "unknown" ? copy.device : first.device,
  browser: first.browser ?? copy.browser,
  os: first.os ?? copy.os,
  is_bot: first.is_bot,
  consent: first.consent,
  geo_built: first.geo_built ?? copy.geo_built,
  errors: first.errors,
  region: first.region ?? copy.region,
  city: first.city ?? copy.city,
  asn: first.asn ?? copy.asn,
  asn_class: first.asn_class,
  person: first.person ?? copy.person,
  edges: first.edges,
});

/** The event without the fields about one line of an order. */
export const withoutLine = (event: EventReceived): EventReceived => ({
  ...event,
  product_line: null,
  quantity: null,
  value_minor: null,
  currency: null,
  dedup_key: null,
  sale_hash: null,
});

/**
 * The event for JSON, which has no bigint. Field by field: every sale is written in this way, and a
 * spread costs a quarter more.
 */
export const plainEvent = (event: EventReceived) => ({
  event_id: event.event_id,
  sender_event_id: event.sender_event_id,
  client_id: event.client_id,
  did: event.did,
  t: event.t,
  custom_name: event.custom_name,
  ts: event.ts,
  source: event.source,
  client_side: event.client_side,
  url: event.url,
  ref: event.ref,
  ip: event.ip,
  ua: event.ua,
  ip_source: event.ip_source,
  ua_source: event.ua_source,
  sid: event.sid,
  click_id: event.click_id,
  consent: event.consent,
  order_id: event.order_id,
  product_id: event.product_id,
  product_line: event.product_line,
  quantity: event.quantity,
  value_minor: event.value_minor?.toString() ?? null,
  currency: event.currency,
  partner_ref: event.partner_ref,
  dedup_key: event.dedup_key,
  lead_key: event.lead_key,
  sale_hash: event.sale_hash,
  import_id: event.import_id,
  props: event.props,
  warnings: event.warnings,
  batch_id: event.batch_id,
  personal_form: event.personal_form,
  by_partner: event.by_partner,
  across: event.across,
});

interface Subject {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
}
/** The texts that a condition may use, by the name of their field. */
export const conditionTexts: Readonly<Record<string, (subject: Subject) => string | null>> = {
  source: ({ event }) => event.source,
  url: ({ event }) => event.url,
  ref: ({ event }) => event.ref,
  product_line: ({ event }) => event.product_line,
  currency: ({ event }) => event.currency,
  country: ({ enrichment }) => enrichment.country,
  device: ({ enrichment }) => enrichment.device,
  browser: ({ enrichment }) => enrichment.browser,
  region: ({ enrichment }) => enrichment.region,
  city: ({ enrichment }) => enrichment.city,
};
