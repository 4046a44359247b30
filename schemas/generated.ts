// schemas/generated.ts - record types and topic constants, from topics.yaml and schemas/*.avsc. Do not edit: npm run generate.
import { topic } from "../infra/avro/codec.ts";
import type { UnixMs } from "../stream/flow.ts";

export type ClaimKind = "conversion" | "refund" | "decision";

/** Something said about one order: its sale, another copy of it, its refund, a decision. */
export interface Claim {
  readonly client_id: number;
  /** o:<order id>, l:<lead key>, i:<did>, s:<source and dedup key>, p:<sale hash> or e:<event id> */
  readonly order_key: string;
  readonly kind: ClaimKind;
  readonly attributed: EventAttributed;
  /** what was decided; the attributed event is then the one it is about, or a blank one for a whole order */
  readonly decision: Decision | null;
}

export type ConversionKind = "credited" | "reversed" | "released";

/** A change of what a partner is credited for: a line of an order credited, (part of) a credited line taken back, or its held commission released. */
export interface Conversion {
  /** identity of this record */
  readonly change_id: string;
  /** cnv_...; the credited line that this record opens or takes back from */
  readonly conversion_id: string;
  readonly kind: ConversionKind;
  /** 1 when credited, + 1 for each later record of the same conversion */
  readonly version: number;
  readonly client_id: number;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  /** the event that made the sale */
  readonly event_id: string;
  /** the event that caused this record: the sale itself, its second copy or its refund; or the id of the decision */
  readonly cause_event_id: string;
  /** purchase, ext_purchase, lead_submit, install, or the name of a custom event */
  readonly event_type: string;
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly segment: string | null;
  readonly quantity: number | null;
  /** person when known, else did: what recurring commissions count by */
  readonly customer: string;
  /** time of the sale, also on reversals */
  readonly occurred_at: UnixMs;
  /** credited: value of the line; reversed: the part that is taken back; released: 0 */
  readonly value_minor: bigint;
  /** value of the line when it was credited */
  readonly line_value_minor: bigint;
  /** sum taken back so far, this record included */
  readonly refunded_minor: bigint;
  readonly currency: string;
  /** why it was taken back: a refund reason, changed_money */
  readonly reason: string | null;
  /** why the commission is held: fraud_review, claimed_by_another_partner */
  readonly review: string | null;
  /** how the partner was credited: click, rule, ... */
  readonly method: string;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
}

export type CreditStatus = "attributed" | "unattributed";

/** One possible credit. outcome is won, or the reason why it lost. */
export interface Candidate {
  readonly method: string;
  /** click id, rule id, partner reference */
  readonly reference: string;
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  readonly outcome: string;
}

/** Who is credited for an event, or why nobody is; every candidate that was considered and why it lost. */
export interface Credit {
  readonly status: CreditStatus;
  /** click, partner_param, upload, rule, identity or decision; null when unattributed */
  readonly method: string | null;
  /** why nobody is credited, e.g. no_click; null when attributed */
  readonly reason: string | null;
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  readonly link_id: number | null;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
  /** time inside the click id */
  readonly clicked_at: UnixMs | null;
  /** attribution window in force at event time */
  readonly window_days: number | null;
  readonly candidates: readonly Candidate[];
  /** set when reference data could not be refreshed: decided on facts as of this time */
  readonly reference_as_of: UnixMs | null;
}

export type DecisionKind = "assign" | "reattribute" | "take_back" | "release" | "flag" | "reject" | "reprocess" | "recredit";

export type DecisionScope = "order" | "line" | "event";

/** What a person or a job has decided about an order, one of its lines, or an event that is no claim. */
export interface Decision {
  /** a UUID; the same decision made again has the same id, and counts once */
  readonly decision_id: string;
  /** assign: to partner_id what nobody is credited for; reattribute: to partner_id whoever holds it; take_back: to nobody; reject: to nobody, for fraud; release: a held commission is payable; flag: more fraud reasons, with what follows from the score; reprocess: what today's code and rules make of the event, which the claim carries with the version that it was computed against; recredit: the line is credited again to whoever holds it, so that its commission follows today's contract */
  readonly kind: DecisionKind;
  /** order: every line of order_key; line: the one of the claim's event; event: the claim's event, which is no claim itself and whose row is rewritten from the bytes at hand */
  readonly scope: DecisionScope;
  /** who decided: a person's id, or the job */
  readonly actor: string;
  /** of assign and reattribute */
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  /** in words */
  readonly reason: string;
  /** when it was decided */
  readonly at: UnixMs;
  /** of flag: added to the score, each code once */
  readonly flags: readonly FraudReason[];
  /** of flag: the client's score from which a commission is held */
  readonly review_from: number;
  /** of flag: the client's score from which nobody is credited */
  readonly reject_from: number;
  /** of reprocess: why the commission is held; null: it is not */
  readonly review: string | null;
  /** of reprocess: also what a person has decided about the line is replaced */
  readonly overrides: boolean;
}

/** Something that a client may hear of: what outbound webhooks and the audit read. Holds no personal data. */
export interface DomainChanged {
  /** uuid, the same however often it is sent */
  readonly event_id: string;
  readonly client_id: number;
  /** <kind>:<id>, e.g. campaign:31 */
  readonly entity: string;
  /** what happened to it, e.g. campaign.created */
  readonly type: string;
  readonly version: number;
  /** the saved change of reference data, where it is one */
  readonly change_id: number | null;
  /** as JSON: its id and what a receiver needs to read it */
  readonly data: string;
}

/** This event shows that a device and an identifier belong together. */
export interface IdentityEdge {
  /** email or login */
  readonly kind: string;
  /** HMAC(client pepper, ...), hex */
  readonly identifier: string;
  /** how it is known, e.g. email_on_event; deterministic ones only */
  readonly method: string;
  /** percent */
  readonly confidence: number;
  /** when nobody has shown it again by then */
  readonly expires_at: UnixMs;
}

/** What enrich found out about an event. A failed look-up is named in errors and never blocks. */
export interface Enrichment {
  /** ISO 3166-1 alpha-2; null when unknown, private or not the visitor's */
  readonly country: string | null;
  /** desktop, mobile, tablet, tv or unknown */
  readonly device: string;
  readonly browser: string | null;
  readonly os: string | null;
  /** a flag, never a drop */
  readonly is_bot: boolean;
  /** the mask in force for this event */
  readonly consent: number;
  /** build date of the country data, YYYY-MM-DD */
  readonly geo_built: string | null;
  readonly errors: readonly string[];
  /** ISO 3166-2 part of the country, from the operator's city data */
  readonly region: string | null;
  /** from the operator's city data */
  readonly city: string | null;
  /** number of the network that announces the address, from the operator's ASN data */
  readonly asn: number | null;
  /** hosting, vpn, isp or unknown */
  readonly asn_class: string;
  /** whom the device belongs to as far as was known: a hash made of the strongest identifier that it showed */
  readonly person: string | null;
  /** identity edges whose evidence this event is */
  readonly edges: readonly IdentityEdge[];
}

/** A stored event: one row of the analytics table per version. */
export interface EventAttributed {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
  /** 1 from the pipeline, + 1 for each logged change; never a clock */
  readonly version: number;
  /** event id of the first copy, when this is a second copy of one conversion */
  readonly merged_into: string | null;
}

/** An event with what enrich found out. */
export interface EventEnriched {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
}

/** One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up. */
export interface EventReceived {
  /** uuid(client_id, the sender's event id), or derived from the event's own content */
  readonly event_id: string;
  /** as the sender gave it */
  readonly sender_event_id: string | null;
  readonly client_id: number;
  /** HMAC(client pepper, SHA-256(device id)), hex */
  readonly did: string;
  /** event type; custom events have t = custom and a custom_name */
  readonly t: string;
  readonly custom_name: string | null;
  /** the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one */
  readonly ts: UnixMs;
  /** the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug> */
  readonly source: string;
  /** the request came from the visitor's own device, so its address and user agent are the visitor's */
  readonly client_side: boolean;
  readonly url: string | null;
  readonly ref: string | null;
  readonly ip: string | null;
  readonly ua: string | null;
  /** event or request */
  readonly ip_source: string | null;
  /** event or request */
  readonly ua_source: string | null;
  readonly sid: string | null;
  /** svc_click_id as given; its MAC is verified by attribute */
  readonly click_id: string | null;
  /** bitmask as given, or the client's default */
  readonly consent: number;
  readonly order_id: string | null;
  readonly product_id: string | null;
  /** segment code, null when unknown */
  readonly product_line: string | null;
  readonly quantity: number | null;
  /** revenue, lead value, price, cart value or refunded amount, in minor units of currency */
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  /** partner_param of a mapped source */
  readonly partner_ref: string | null;
  /** dedup_key of a mapped source */
  readonly dedup_key: string | null;
  /** hashed e-mail with product and day, else the client's lead id */
  readonly lead_key: string | null;
  /** identity of a row pulled from an external source */
  readonly sale_hash: string | null;
  readonly import_id: string | null;
  /** all props as one JSON text, personal data hashed */
  readonly props: string;
  /** what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed */
  readonly warnings: readonly string[];
  /** which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt */
  readonly batch_id: string | null;
}

/** An enriched event with its fraud score. */
export interface EventScored {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
}

export type FraudBand = "ok" | "review" | "reject";

export interface FraudReason {
  readonly code: string;
  readonly weight: number;
  readonly evidence: string;
}

/** What was read across keys when this event was scored, once: a claim's or a click's only. */
export interface FraudHints {
  /** other conversions from the same address in the same hour */
  readonly address_conversions: number | null;
  /** other devices that carried the same click id */
  readonly click_devices: number | null;
  /** country of the click that the event carries */
  readonly click_country: string | null;
}

/** The inline score of an event: 0 to 100, the band by the client's thresholds, and why. */
export interface Fraud {
  readonly score: number;
  readonly band: FraudBand;
  readonly reasons: readonly FraudReason[];
  /** null when nothing was asked */
  readonly hints: FraudHints | null;
}

export type EntryKind = "earned" | "reversal" | "adjustment" | "tier_adjustment" | "none";

/** Debits positive, credits negative; the lines of an entry sum to zero. */
export interface EntryLine {
  readonly account: string;
  readonly amount_minor: bigint;
}

/** One immutable, balanced entry: what a conversion earns a partner, or what is taken back, with the receipt. */
export interface LedgerEntry {
  /** led_... */
  readonly entry_id: string;
  readonly kind: EntryKind;
  readonly client_id: number;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  readonly conversion_id: string;
  /** the conversion record that this entry answers */
  readonly change_id: string;
  readonly conversion_version: number;
  readonly event_type: string;
  readonly segment: string | null;
  readonly currency: string;
  /** what the partner gains (positive) or loses (negative) by this entry */
  readonly amount_minor: bigint;
  readonly lines: readonly EntryLine[];
  /** why nothing was earned (no_contract, cap_reached, zero_value, currency_mismatch) or why it was taken back */
  readonly reason: string | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  /** percent, flat, tiered, recurring or hybrid */
  readonly commission_type: string | null;
  /** in words a partner can check */
  readonly formula: string;
  /** the receipt as JSON: every number that the formula used */
  readonly inputs: string;
  /** time of the sale */
  readonly occurred_at: UnixMs;
  /** end of the hold */
  readonly payable_from: UnixMs | null;
  readonly year: number;
  /** month of the sale in America/Mexico_City */
  readonly month: number;
  /** booked to held:partner until a decision */
  readonly held: boolean;
  readonly reverses_entry_id: string | null;
}

/** Something that an operator or a schedule did to the log or to what is derived from it. Written before it begins and again when it ends: same operation_id, further phase. */
export interface Operation {
  /** op_<uuid> */
  readonly operation_id: string;
  /** rewind, replay, relearn, reprocess, restore, dead_letter_retry, dead_letter_discard, restart */
  readonly kind: string;
  /** started, succeeded, failed or refused */
  readonly phase: string;
  /** who: a user of the machine, an e-mail address, or keeper */
  readonly actor: string;
  /** what: a group, a window, a letter, a store */
  readonly target: string;
  readonly reason: string | null;
  /** as JSON: offsets before and after, counts, what went wrong */
  readonly detail: string;
}

/** A thing of the reference data has a further version; whoever keeps a picture of it may refresh. The rows themselves are read from Postgres. */
export interface ReferenceChanged {
  /** uuid, the same however often it is sent */
  readonly event_id: string;
  /** client, segment, partner, campaign, link, contract or rule */
  readonly entity: string;
  /** of a segment <client_id>:<code> */
  readonly entity_id: string;
  readonly version: number;
  /** the saved change, which says when it takes effect and who asked for it */
  readonly change_id: number;
}

/** Every topic that holds records. */
export const topics = {
  eventsRaw: topic<EventReceived>({
    name: "events.raw",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.did}`,
    record: {"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]},
  }),
  eventsEnriched: topic<EventEnriched>({
    name: "events.enriched",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: {"type":"record","name":"EventEnriched","namespace":"tributary","doc":"An event with what enrich found out.","fields":[{"name":"event","type":{"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]}},{"name":"enrichment","type":{"type":"record","name":"Enrichment","namespace":"tributary","doc":"What enrich found out about an event. A failed look-up is named in errors and never blocks.","fields":[{"name":"country","type":["null","string"],"default":null,"doc":"ISO 3166-1 alpha-2; null when unknown, private or not the visitor's"},{"name":"device","type":"string","doc":"desktop, mobile, tablet, tv or unknown"},{"name":"browser","type":["null","string"],"default":null},{"name":"os","type":["null","string"],"default":null},{"name":"is_bot","type":"boolean","doc":"a flag, never a drop"},{"name":"consent","type":"int","doc":"the mask in force for this event"},{"name":"geo_built","type":["null","string"],"default":null,"doc":"build date of the country data, YYYY-MM-DD"},{"name":"errors","type":{"type":"array","items":"string"}},{"name":"region","type":["null","string"],"default":null,"doc":"ISO 3166-2 part of the country, from the operator's city data"},{"name":"city","type":["null","string"],"default":null,"doc":"from the operator's city data"},{"name":"asn","type":["null","int"],"default":null,"doc":"number of the network that announces the address, from the operator's ASN data"},{"name":"asn_class","type":"string","default":"unknown","doc":"hosting, vpn, isp or unknown"},{"name":"person","type":["null","string"],"default":null,"doc":"whom the device belongs to as far as was known: a hash made of the strongest identifier that it showed"},{"name":"edges","type":{"type":"array","items":{"type":"record","name":"IdentityEdge","doc":"This event shows that a device and an identifier belong together.","fields":[{"name":"kind","type":"string","doc":"email or login"},{"name":"identifier","type":"string","doc":"HMAC(client pepper, ...), hex"},{"name":"method","type":"string","doc":"how it is known, e.g. email_on_event; deterministic ones only"},{"name":"confidence","type":"int","doc":"percent"},{"name":"expires_at","type":"long","doc":"when nobody has shown it again by then"}]}},"default":[],"doc":"identity edges whose evidence this event is"}]}}]},
  }),
  eventsScored: topic<EventScored>({
    name: "events.scored",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: {"type":"record","name":"EventScored","namespace":"tributary","doc":"An enriched event with its fraud score.","fields":[{"name":"event","type":{"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]}},{"name":"enrichment","type":{"type":"record","name":"Enrichment","namespace":"tributary","doc":"What enrich found out about an event. A failed look-up is named in errors and never blocks.","fields":[{"name":"country","type":["null","string"],"default":null,"doc":"ISO 3166-1 alpha-2; null when unknown, private or not the visitor's"},{"name":"device","type":"string","doc":"desktop, mobile, tablet, tv or unknown"},{"name":"browser","type":["null","string"],"default":null},{"name":"os","type":["null","string"],"default":null},{"name":"is_bot","type":"boolean","doc":"a flag, never a drop"},{"name":"consent","type":"int","doc":"the mask in force for this event"},{"name":"geo_built","type":["null","string"],"default":null,"doc":"build date of the country data, YYYY-MM-DD"},{"name":"errors","type":{"type":"array","items":"string"}},{"name":"region","type":["null","string"],"default":null,"doc":"ISO 3166-2 part of the country, from the operator's city data"},{"name":"city","type":["null","string"],"default":null,"doc":"from the operator's city data"},{"name":"asn","type":["null","int"],"default":null,"doc":"number of the network that announces the address, from the operator's ASN data"},{"name":"asn_class","type":"string","default":"unknown","doc":"hosting, vpn, isp or unknown"},{"name":"person","type":["null","string"],"default":null,"doc":"whom the device belongs to as far as was known: a hash made of the strongest identifier that it showed"},{"name":"edges","type":{"type":"array","items":{"type":"record","name":"IdentityEdge","doc":"This event shows that a device and an identifier belong together.","fields":[{"name":"kind","type":"string","doc":"email or login"},{"name":"identifier","type":"string","doc":"HMAC(client pepper, ...), hex"},{"name":"method","type":"string","doc":"how it is known, e.g. email_on_event; deterministic ones only"},{"name":"confidence","type":"int","doc":"percent"},{"name":"expires_at","type":"long","doc":"when nobody has shown it again by then"}]}},"default":[],"doc":"identity edges whose evidence this event is"}]}},{"name":"fraud","type":{"type":"record","name":"Fraud","namespace":"tributary","doc":"The inline score of an event: 0 to 100, the band by the client's thresholds, and why.","fields":[{"name":"score","type":"int"},{"name":"band","type":{"type":"enum","name":"FraudBand","symbols":["ok","review","reject"]}},{"name":"reasons","type":{"type":"array","items":{"type":"record","name":"FraudReason","fields":[{"name":"code","type":"string"},{"name":"weight","type":"int"},{"name":"evidence","type":"string"}]}}},{"name":"hints","type":["null",{"type":"record","name":"FraudHints","doc":"What was read across keys when this event was scored, once: a claim's or a click's only.","fields":[{"name":"address_conversions","type":["null","int"],"default":null,"doc":"other conversions from the same address in the same hour"},{"name":"click_devices","type":["null","int"],"default":null,"doc":"other devices that carried the same click id"},{"name":"click_country","type":["null","string"],"default":null,"doc":"country of the click that the event carries"}]}],"default":null,"doc":"null when nothing was asked"}]}}]},
  }),
  eventsAttributed: topic<EventAttributed>({
    name: "events.attributed",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: {"type":"record","name":"EventAttributed","namespace":"tributary","doc":"A stored event: one row of the analytics table per version.","fields":[{"name":"event","type":{"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]}},{"name":"enrichment","type":{"type":"record","name":"Enrichment","namespace":"tributary","doc":"What enrich found out about an event. A failed look-up is named in errors and never blocks.","fields":[{"name":"country","type":["null","string"],"default":null,"doc":"ISO 3166-1 alpha-2; null when unknown, private or not the visitor's"},{"name":"device","type":"string","doc":"desktop, mobile, tablet, tv or unknown"},{"name":"browser","type":["null","string"],"default":null},{"name":"os","type":["null","string"],"default":null},{"name":"is_bot","type":"boolean","doc":"a flag, never a drop"},{"name":"consent","type":"int","doc":"the mask in force for this event"},{"name":"geo_built","type":["null","string"],"default":null,"doc":"build date of the country data, YYYY-MM-DD"},{"name":"errors","type":{"type":"array","items":"string"}},{"name":"region","type":["null","string"],"default":null,"doc":"ISO 3166-2 part of the country, from the operator's city data"},{"name":"city","type":["null","string"],"default":null,"doc":"from the operator's city data"},{"name":"asn","type":["null","int"],"default":null,"doc":"number of the network that announces the address, from the operator's ASN data"},{"name":"asn_class","type":"string","default":"unknown","doc":"hosting, vpn, isp or unknown"},{"name":"person","type":["null","string"],"default":null,"doc":"whom the device belongs to as far as was known: a hash made of the strongest identifier that it showed"},{"name":"edges","type":{"type":"array","items":{"type":"record","name":"IdentityEdge","doc":"This event shows that a device and an identifier belong together.","fields":[{"name":"kind","type":"string","doc":"email or login"},{"name":"identifier","type":"string","doc":"HMAC(client pepper, ...), hex"},{"name":"method","type":"string","doc":"how it is known, e.g. email_on_event; deterministic ones only"},{"name":"confidence","type":"int","doc":"percent"},{"name":"expires_at","type":"long","doc":"when nobody has shown it again by then"}]}},"default":[],"doc":"identity edges whose evidence this event is"}]}},{"name":"fraud","type":{"type":"record","name":"Fraud","namespace":"tributary","doc":"The inline score of an event: 0 to 100, the band by the client's thresholds, and why.","fields":[{"name":"score","type":"int"},{"name":"band","type":{"type":"enum","name":"FraudBand","symbols":["ok","review","reject"]}},{"name":"reasons","type":{"type":"array","items":{"type":"record","name":"FraudReason","fields":[{"name":"code","type":"string"},{"name":"weight","type":"int"},{"name":"evidence","type":"string"}]}}},{"name":"hints","type":["null",{"type":"record","name":"FraudHints","doc":"What was read across keys when this event was scored, once: a claim's or a click's only.","fields":[{"name":"address_conversions","type":["null","int"],"default":null,"doc":"other conversions from the same address in the same hour"},{"name":"click_devices","type":["null","int"],"default":null,"doc":"other devices that carried the same click id"},{"name":"click_country","type":["null","string"],"default":null,"doc":"country of the click that the event carries"}]}],"default":null,"doc":"null when nothing was asked"}]}},{"name":"credit","type":{"type":"record","name":"Credit","namespace":"tributary","doc":"Who is credited for an event, or why nobody is; every candidate that was considered and why it lost.","fields":[{"name":"status","type":{"type":"enum","name":"CreditStatus","symbols":["attributed","unattributed"]}},{"name":"method","type":["null","string"],"default":null,"doc":"click, partner_param, upload, rule, identity or decision; null when unattributed"},{"name":"reason","type":["null","string"],"default":null,"doc":"why nobody is credited, e.g. no_click; null when attributed"},{"name":"partner_id","type":["null","int"],"default":null},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"link_id","type":["null","int"],"default":null},{"name":"rule_id","type":["null","int"],"default":null},{"name":"rule_version","type":["null","int"],"default":null},{"name":"clicked_at","type":["null","long"],"default":null,"doc":"time inside the click id"},{"name":"window_days","type":["null","int"],"default":null,"doc":"attribution window in force at event time"},{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"Candidate","doc":"One possible credit. outcome is won, or the reason why it lost.","fields":[{"name":"method","type":"string"},{"name":"reference","type":"string","doc":"click id, rule id, partner reference"},{"name":"partner_id","type":["null","int"],"default":null},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"outcome","type":"string"}]}}},{"name":"reference_as_of","type":["null","long"],"default":null,"doc":"set when reference data could not be refreshed: decided on facts as of this time"}]}},{"name":"version","type":"int","doc":"1 from the pipeline, + 1 for each logged change; never a clock"},{"name":"merged_into","type":["null","string"],"default":null,"doc":"event id of the first copy, when this is a second copy of one conversion"}]},
  }),
  claims: topic<Claim>({
    name: "claims",
    keyedBy: "client_id:order",
    partitions: 4,
    checked: true,
    idOf: (data) => data.decision?.decision_id ?? data.attributed.event.event_id,
    keyOf: (data) => `${data.client_id}:${data.order_key}`,
    record: {"type":"record","name":"Claim","namespace":"tributary","doc":"Something said about one order: its sale, another copy of it, its refund, a decision.","fields":[{"name":"client_id","type":"int"},{"name":"order_key","type":"string","doc":"o:<order id>, l:<lead key>, i:<did>, s:<source and dedup key>, p:<sale hash> or e:<event id>"},{"name":"kind","type":{"type":"enum","name":"ClaimKind","symbols":["conversion","refund","decision"]}},{"name":"attributed","type":{"type":"record","name":"EventAttributed","namespace":"tributary","doc":"A stored event: one row of the analytics table per version.","fields":[{"name":"event","type":{"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]}},{"name":"enrichment","type":{"type":"record","name":"Enrichment","namespace":"tributary","doc":"What enrich found out about an event. A failed look-up is named in errors and never blocks.","fields":[{"name":"country","type":["null","string"],"default":null,"doc":"ISO 3166-1 alpha-2; null when unknown, private or not the visitor's"},{"name":"device","type":"string","doc":"desktop, mobile, tablet, tv or unknown"},{"name":"browser","type":["null","string"],"default":null},{"name":"os","type":["null","string"],"default":null},{"name":"is_bot","type":"boolean","doc":"a flag, never a drop"},{"name":"consent","type":"int","doc":"the mask in force for this event"},{"name":"geo_built","type":["null","string"],"default":null,"doc":"build date of the country data, YYYY-MM-DD"},{"name":"errors","type":{"type":"array","items":"string"}},{"name":"region","type":["null","string"],"default":null,"doc":"ISO 3166-2 part of the country, from the operator's city data"},{"name":"city","type":["null","string"],"default":null,"doc":"from the operator's city data"},{"name":"asn","type":["null","int"],"default":null,"doc":"number of the network that announces the address, from the operator's ASN data"},{"name":"asn_class","type":"string","default":"unknown","doc":"hosting, vpn, isp or unknown"},{"name":"person","type":["null","string"],"default":null,"doc":"whom the device belongs to as far as was known: a hash made of the strongest identifier that it showed"},{"name":"edges","type":{"type":"array","items":{"type":"record","name":"IdentityEdge","doc":"This event shows that a device and an identifier belong together.","fields":[{"name":"kind","type":"string","doc":"email or login"},{"name":"identifier","type":"string","doc":"HMAC(client pepper, ...), hex"},{"name":"method","type":"string","doc":"how it is known, e.g. email_on_event; deterministic ones only"},{"name":"confidence","type":"int","doc":"percent"},{"name":"expires_at","type":"long","doc":"when nobody has shown it again by then"}]}},"default":[],"doc":"identity edges whose evidence this event is"}]}},{"name":"fraud","type":{"type":"record","name":"Fraud","namespace":"tributary","doc":"The inline score of an event: 0 to 100, the band by the client's thresholds, and why.","fields":[{"name":"score","type":"int"},{"name":"band","type":{"type":"enum","name":"FraudBand","symbols":["ok","review","reject"]}},{"name":"reasons","type":{"type":"array","items":{"type":"record","name":"FraudReason","fields":[{"name":"code","type":"string"},{"name":"weight","type":"int"},{"name":"evidence","type":"string"}]}}},{"name":"hints","type":["null",{"type":"record","name":"FraudHints","doc":"What was read across keys when this event was scored, once: a claim's or a click's only.","fields":[{"name":"address_conversions","type":["null","int"],"default":null,"doc":"other conversions from the same address in the same hour"},{"name":"click_devices","type":["null","int"],"default":null,"doc":"other devices that carried the same click id"},{"name":"click_country","type":["null","string"],"default":null,"doc":"country of the click that the event carries"}]}],"default":null,"doc":"null when nothing was asked"}]}},{"name":"credit","type":{"type":"record","name":"Credit","namespace":"tributary","doc":"Who is credited for an event, or why nobody is; every candidate that was considered and why it lost.","fields":[{"name":"status","type":{"type":"enum","name":"CreditStatus","symbols":["attributed","unattributed"]}},{"name":"method","type":["null","string"],"default":null,"doc":"click, partner_param, upload, rule, identity or decision; null when unattributed"},{"name":"reason","type":["null","string"],"default":null,"doc":"why nobody is credited, e.g. no_click; null when attributed"},{"name":"partner_id","type":["null","int"],"default":null},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"link_id","type":["null","int"],"default":null},{"name":"rule_id","type":["null","int"],"default":null},{"name":"rule_version","type":["null","int"],"default":null},{"name":"clicked_at","type":["null","long"],"default":null,"doc":"time inside the click id"},{"name":"window_days","type":["null","int"],"default":null,"doc":"attribution window in force at event time"},{"name":"candidates","type":{"type":"array","items":{"type":"record","name":"Candidate","doc":"One possible credit. outcome is won, or the reason why it lost.","fields":[{"name":"method","type":"string"},{"name":"reference","type":"string","doc":"click id, rule id, partner reference"},{"name":"partner_id","type":["null","int"],"default":null},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"outcome","type":"string"}]}}},{"name":"reference_as_of","type":["null","long"],"default":null,"doc":"set when reference data could not be refreshed: decided on facts as of this time"}]}},{"name":"version","type":"int","doc":"1 from the pipeline, + 1 for each logged change; never a clock"},{"name":"merged_into","type":["null","string"],"default":null,"doc":"event id of the first copy, when this is a second copy of one conversion"}]}},{"name":"decision","type":["null",{"type":"record","name":"Decision","namespace":"tributary","doc":"What a person or a job has decided about an order, one of its lines, or an event that is no claim.","fields":[{"name":"decision_id","type":"string","doc":"a UUID; the same decision made again has the same id, and counts once"},{"name":"kind","type":{"type":"enum","name":"DecisionKind","symbols":["assign","reattribute","take_back","release","flag","reject","reprocess","recredit"]},"doc":"assign: to partner_id what nobody is credited for; reattribute: to partner_id whoever holds it; take_back: to nobody; reject: to nobody, for fraud; release: a held commission is payable; flag: more fraud reasons, with what follows from the score; reprocess: what today's code and rules make of the event, which the claim carries with the version that it was computed against; recredit: the line is credited again to whoever holds it, so that its commission follows today's contract"},{"name":"scope","type":{"type":"enum","name":"DecisionScope","symbols":["order","line","event"]},"doc":"order: every line of order_key; line: the one of the claim's event; event: the claim's event, which is no claim itself and whose row is rewritten from the bytes at hand"},{"name":"actor","type":"string","doc":"who decided: a person's id, or the job"},{"name":"partner_id","type":["null","int"],"default":null,"doc":"of assign and reattribute"},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"reason","type":"string","doc":"in words"},{"name":"at","type":"long","doc":"when it was decided"},{"name":"flags","type":{"type":"array","items":"FraudReason"},"default":[],"doc":"of flag: added to the score, each code once"},{"name":"review_from","type":"int","default":101,"doc":"of flag: the client's score from which a commission is held"},{"name":"reject_from","type":"int","default":101,"doc":"of flag: the client's score from which nobody is credited"},{"name":"review","type":["null","string"],"default":null,"doc":"of reprocess: why the commission is held; null: it is not"},{"name":"overrides","type":"boolean","default":false,"doc":"of reprocess: also what a person has decided about the line is replaced"}]}],"default":null,"doc":"what was decided; the attributed event is then the one it is about, or a blank one for a whole order"}]},
  }),
  conversions: topic<Conversion>({
    name: "conversions",
    keyedBy: "client_id:partner_id",
    partitions: 4,
    checked: true,
    idOf: (data) => data.change_id,
    keyOf: (data) => `${data.client_id}:${data.partner_id}`,
    record: {"type":"record","name":"Conversion","namespace":"tributary","doc":"A change of what a partner is credited for: a line of an order credited, (part of) a credited line taken back, or its held commission released.","fields":[{"name":"change_id","type":"string","doc":"identity of this record"},{"name":"conversion_id","type":"string","doc":"cnv_...; the credited line that this record opens or takes back from"},{"name":"kind","type":{"type":"enum","name":"ConversionKind","symbols":["credited","reversed","released"]}},{"name":"version","type":"int","doc":"1 when credited, + 1 for each later record of the same conversion"},{"name":"client_id","type":"int"},{"name":"partner_id","type":"int"},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"event_id","type":"string","doc":"the event that made the sale"},{"name":"cause_event_id","type":"string","doc":"the event that caused this record: the sale itself, its second copy or its refund; or the id of the decision"},{"name":"event_type","type":"string","doc":"purchase, ext_purchase, lead_submit, install, or the name of a custom event"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"segment","type":["null","string"],"default":null},{"name":"quantity","type":["null","int"],"default":null},{"name":"customer","type":"string","doc":"person when known, else did: what recurring commissions count by"},{"name":"occurred_at","type":"long","doc":"time of the sale, also on reversals"},{"name":"value_minor","type":{"type":"long","logicalType":"minor-units"},"doc":"credited: value of the line; reversed: the part that is taken back; released: 0"},{"name":"line_value_minor","type":{"type":"long","logicalType":"minor-units"},"doc":"value of the line when it was credited"},{"name":"refunded_minor","type":{"type":"long","logicalType":"minor-units"},"doc":"sum taken back so far, this record included"},{"name":"currency","type":"string"},{"name":"reason","type":["null","string"],"default":null,"doc":"why it was taken back: a refund reason, changed_money"},{"name":"review","type":["null","string"],"default":null,"doc":"why the commission is held: fraud_review, claimed_by_another_partner"},{"name":"method","type":"string","doc":"how the partner was credited: click, rule, ..."},{"name":"rule_id","type":["null","int"],"default":null},{"name":"rule_version","type":["null","int"],"default":null}]},
  }),
  ledgerEntries: topic<LedgerEntry>({
    name: "ledger.entries",
    keyedBy: "client_id:partner_id",
    partitions: 4,
    checked: true,
    idOf: (data) => data.entry_id,
    keyOf: (data) => `${data.client_id}:${data.partner_id}`,
    record: {"type":"record","name":"LedgerEntry","namespace":"tributary","doc":"One immutable, balanced entry: what a conversion earns a partner, or what is taken back, with the receipt.","fields":[{"name":"entry_id","type":"string","doc":"led_..."},{"name":"kind","type":{"type":"enum","name":"EntryKind","symbols":["earned","reversal","adjustment","tier_adjustment","none"]}},{"name":"client_id","type":"int"},{"name":"partner_id","type":"int"},{"name":"campaign_id","type":["null","int"],"default":null},{"name":"conversion_id","type":"string"},{"name":"change_id","type":"string","doc":"the conversion record that this entry answers"},{"name":"conversion_version","type":"int"},{"name":"event_type","type":"string"},{"name":"segment","type":["null","string"],"default":null},{"name":"currency","type":"string"},{"name":"amount_minor","type":{"type":"long","logicalType":"minor-units"},"doc":"what the partner gains (positive) or loses (negative) by this entry"},{"name":"lines","type":{"type":"array","items":{"type":"record","name":"EntryLine","doc":"Debits positive, credits negative; the lines of an entry sum to zero.","fields":[{"name":"account","type":"string"},{"name":"amount_minor","type":{"type":"long","logicalType":"minor-units"}}]}}},{"name":"reason","type":["null","string"],"default":null,"doc":"why nothing was earned (no_contract, cap_reached, zero_value, currency_mismatch) or why it was taken back"},{"name":"contract_id","type":["null","int"],"default":null},{"name":"contract_version","type":["null","int"],"default":null},{"name":"commission_type","type":["null","string"],"default":null,"doc":"percent, flat, tiered, recurring or hybrid"},{"name":"formula","type":"string","doc":"in words a partner can check"},{"name":"inputs","type":"string","doc":"the receipt as JSON: every number that the formula used"},{"name":"occurred_at","type":"long","doc":"time of the sale"},{"name":"payable_from","type":["null","long"],"default":null,"doc":"end of the hold"},{"name":"year","type":"int"},{"name":"month","type":"int","doc":"month of the sale in America/Mexico_City"},{"name":"held","type":"boolean","doc":"booked to held:partner until a decision"},{"name":"reverses_entry_id","type":["null","string"],"default":null}]},
  }),
  referenceChanges: topic<ReferenceChanged>({
    name: "reference.changes",
    keyedBy: "entity:id",
    partitions: 1,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.entity}:${data.entity_id}`,
    record: {"type":"record","name":"ReferenceChanged","namespace":"tributary","doc":"A thing of the reference data has a further version; whoever keeps a picture of it may refresh. The rows themselves are read from Postgres.","fields":[{"name":"event_id","type":"string","doc":"uuid, the same however often it is sent"},{"name":"entity","type":"string","doc":"client, segment, partner, campaign, link, contract or rule"},{"name":"entity_id","type":"string","doc":"of a segment <client_id>:<code>"},{"name":"version","type":"int"},{"name":"change_id","type":"int","doc":"the saved change, which says when it takes effect and who asked for it"}]},
  }),
  domainChanges: topic<DomainChanged>({
    name: "domain.changes",
    keyedBy: "client_id:entity",
    partitions: 4,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.entity}`,
    record: {"type":"record","name":"DomainChanged","namespace":"tributary","doc":"Something that a client may hear of: what outbound webhooks and the audit read. Holds no personal data.","fields":[{"name":"event_id","type":"string","doc":"uuid, the same however often it is sent"},{"name":"client_id","type":"int"},{"name":"entity","type":"string","doc":"<kind>:<id>, e.g. campaign:31"},{"name":"type","type":"string","doc":"what happened to it, e.g. campaign.created"},{"name":"version","type":"int"},{"name":"change_id","type":["null","int"],"default":null,"doc":"the saved change of reference data, where it is one"},{"name":"data","type":"string","doc":"as JSON: its id and what a receiver needs to read it"}]},
  }),
  operations: topic<Operation>({
    name: "operations",
    keyedBy: "actor",
    partitions: 1,
    checked: false,
    idOf: (data) => data.operation_id,
    keyOf: (data) => `${data.actor}`,
    record: {"type":"record","name":"Operation","namespace":"tributary","doc":"Something that an operator or a schedule did to the log or to what is derived from it. Written before it begins and again when it ends: same operation_id, further phase.","fields":[{"name":"operation_id","type":"string","doc":"op_<uuid>"},{"name":"kind","type":"string","doc":"rewind, replay, relearn, reprocess, restore, dead_letter_retry, dead_letter_discard, restart"},{"name":"phase","type":"string","doc":"started, succeeded, failed or refused"},{"name":"actor","type":"string","doc":"who: a user of the machine, an e-mail address, or keeper"},{"name":"target","type":"string","doc":"what: a group, a window, a letter, a store"},{"name":"reason","type":["null","string"],"default":null},{"name":"detail","type":"string","doc":"as JSON: offsets before and after, counts, what went wrong"}]},
  }),
  eventsRestored: topic<EventReceived>({
    name: "events.restored",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.did}`,
    record: {"type":"record","name":"EventReceived","namespace":"tributary","doc":"One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.","fields":[{"name":"event_id","type":"string","doc":"uuid(client_id, the sender's event id), or derived from the event's own content"},{"name":"sender_event_id","type":["null","string"],"default":null,"doc":"as the sender gave it"},{"name":"client_id","type":"int"},{"name":"did","type":"string","doc":"HMAC(client pepper, SHA-256(device id)), hex"},{"name":"t","type":"string","doc":"event type; custom events have t = custom and a custom_name"},{"name":"custom_name","type":["null","string"],"default":null},{"name":"ts","type":"long","doc":"the sender's own time, Unix milliseconds; ids and sort keys use it, never a clamped one"},{"name":"source","type":"string","doc":"the edge: batch, pixel, link, upload, lead, pull, or postback:<processor>, generic:<slug>"},{"name":"client_side","type":"boolean","doc":"the request came from the visitor's own device, so its address and user agent are the visitor's"},{"name":"url","type":["null","string"],"default":null},{"name":"ref","type":["null","string"],"default":null},{"name":"ip","type":["null","string"],"default":null},{"name":"ua","type":["null","string"],"default":null},{"name":"ip_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"ua_source","type":["null","string"],"default":null,"doc":"event or request"},{"name":"sid","type":["null","string"],"default":null},{"name":"click_id","type":["null","string"],"default":null,"doc":"svc_click_id as given; its MAC is verified by attribute"},{"name":"consent","type":"int","doc":"bitmask as given, or the client's default"},{"name":"order_id","type":["null","string"],"default":null},{"name":"product_id","type":["null","string"],"default":null},{"name":"product_line","type":["null","string"],"default":null,"doc":"segment code, null when unknown"},{"name":"quantity","type":["null","int"],"default":null},{"name":"value_minor","type":["null",{"type":"long","logicalType":"minor-units"}],"default":null,"doc":"revenue, lead value, price, cart value or refunded amount, in minor units of currency"},{"name":"currency","type":["null","string"],"default":null},{"name":"partner_ref","type":["null","string"],"default":null,"doc":"partner_param of a mapped source"},{"name":"dedup_key","type":["null","string"],"default":null,"doc":"dedup_key of a mapped source"},{"name":"lead_key","type":["null","string"],"default":null,"doc":"hashed e-mail with product and day, else the client's lead id"},{"name":"sale_hash","type":["null","string"],"default":null,"doc":"identity of a row pulled from an external source"},{"name":"import_id","type":["null","string"],"default":null},{"name":"props","type":"string","doc":"all props as one JSON text, personal data hashed"},{"name":"warnings","type":{"type":"array","items":"string"},"doc":"what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed"},{"name":"batch_id","type":["null","string"],"default":null,"doc":"which request brought it, as 20 hex digits that begin with its time; null where nobody can ask for a receipt"}]},
  }),
} as const;

/** What the broker must hold; retentionMs -1 keeps for good. */
export const topicSettings = [
  { name: "events.raw", partitions: 12, retentionMs: 604800000, compacted: false, why: "The write-ahead log. Nothing is acknowledged to a sender before it is here; keyed by device so that a device's events meet in order." },
  { name: "events.enriched", partitions: 12, retentionMs: 86400000, compacted: false, why: "Only written when stages are hosted apart." },
  { name: "events.scored", partitions: 12, retentionMs: 86400000, compacted: false, why: "Only written when stages are hosted apart." },
  { name: "events.attributed", partitions: 12, retentionMs: 2592000000, compacted: false, why: "Every stored event with enrichment, fraud and credit. Claims are written by settle, all other events by attribute, so no row version has two authors." },
  { name: "claims", partitions: 4, retentionMs: -1, compacted: false, why: "Everything that says something about one order, in one order of arrival, so that a sale, its second copy and its refund cannot race." },
  { name: "conversions", partitions: 4, retentionMs: -1, compacted: false, why: "What earns or returns money; keyed by partner because tiers and caps are per partner." },
  { name: "ledger.entries", partitions: 4, retentionMs: -1, compacted: false, why: "Immutable, balanced, integer minor units; every amount a partner or client sees is a reading of it." },
  { name: "reference.changes", partitions: 1, retentionMs: -1, compacted: true, why: "Tells who keeps a picture of the reference data what has a further version; one partition, so that changes come in the order in which they were saved." },
  { name: "domain.changes", partitions: 4, retentionMs: 2592000000, compacted: false, why: "What outbound webhooks and the audit read; keyed so that what happens to one thing comes in order." },
  { name: "operations", partitions: 1, retentionMs: -1, compacted: false, why: "Who moved what in the log, when, and to which offsets: rewinds, replays, restores, reprocessing, dead letters that were retried or discarded. One partition: the order is the story." },
  { name: "events.restored", partitions: 12, retentionMs: 604800000, compacted: false, why: "What `tributary restore` brings back from the archive, for windows that events.raw no longer holds. Replays and relearning read it; it never goes into events.raw." },
  { name: "probe", partitions: 1, retentionMs: 3600000, compacted: false, why: "Health round trips of the edges." },
  { name: "clicks.dlq", partitions: 4, retentionMs: -1, compacted: false, why: "Dead letters of tracking links, original bytes, reasons in headers." },
  { name: "pixel.dlq", partitions: 4, retentionMs: -1, compacted: false, why: "Dead letters of the browser pixel." },
  { name: "s2s.dlq", partitions: 4, retentionMs: -1, compacted: false, why: "Dead letters of every other source, and of bytes that nobody can read." },
] as const;
