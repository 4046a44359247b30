// Record types and topic names, from topics.yaml and schemas/*.avsc. Do not edit: npm run generate.

/** Milliseconds since 1970 in UTC. */
type UnixMs = number;

export type TopicName =
  | "events.raw"
  | "events.enriched"
  | "events.scored"
  | "events.attributed"
  | "claims"
  | "claims.taken"
  | "conversions"
  | "ledger.entries"
  | "reference.changes"
  | "domain.changes"
  | "operations"
  | "events.restored"
  | "probe"
  | "clicks.dlq"
  | "pixel.dlq"
  | "s2s.dlq";

export type ClaimKind = "conversion" | "refund" | "decision";

/**
 * A refund that named an event only, and waited where that event is not: it goes on where its line
 * is, and is no longer where it waited.
 */
export interface MovedRefund {
  /**
   * the id of this claim, since the refund's own stands where it waited; the same move made again
   * has the same id
   */
  readonly move_id: string;
  /** when it was moved */
  readonly at: UnixMs;
  /** when the refund was received */
  readonly received_at: UnixMs;
}

/** Something said about one order: its sale, another copy of it, its refund, a decision. */
export interface Claim {
  readonly client_id: number;
  /**
   * o:<order id>, l:<lead key>, i:<did>, s:<source and dedup key>, p:<sale hash> or e:<event id>
   */
  readonly order_key: string;
  readonly kind: ClaimKind;
  readonly attributed: EventAttributed;
  /**
   * what was decided; the attributed event is then the one it is about, or a blank one for a whole
   * order
   */
  readonly decision: Decision | null;
  /** of a refund that names an event: the event, which made a line or is a copy of one */
  readonly line_event_id: string | null;
  /** of a conversion that brings neither an amount nor a currency: its client's */
  readonly currency: string | null;
  /**
   * of a conversion: whose time dates its money, event, click or receipt (domain/money-time.ts);
   * null: as claims of before, the event's, and the hold runs from it
   */
  readonly dated_by: string | null;
  /** why it is not the event's: ts_before_click, client_clock or late_event */
  readonly dated_because: string | null;
  /**
   * of a refund that is moved: to the line of line_event_id, or away from here where that is null
   */
  readonly moved: MovedRefund | null;
}

export type ConversionKind = "credited" | "reversed" | "released";

/**
 * A change of what a partner is credited for: a line of an order credited, (part of) a credited
 * line taken back, or its held commission released.
 */
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
  /**
   * the event that caused this record: the sale itself, its second copy or its refund; or the id of
   * the decision
   */
  readonly cause_event_id: string;
  /** purchase, ext_purchase, lead_submit, install, or the name of a custom event */
  readonly event_type: string;
  readonly order_id: string | null;
  readonly product_id: string | null;
  readonly segment: string | null;
  readonly quantity: number | null;
  /**
   * person when known, else did: what recurring commissions count by; empty when the did names no
   * device
   */
  readonly customer: string;
  /** the time that dates the money of the sale, also on reversals */
  readonly occurred_at: UnixMs;
  /** credited: value of the line; reversed: the part that is taken back; released: 0 */
  readonly value_minor: bigint;
  /** value of the line when it was credited */
  readonly line_value_minor: bigint;
  /** sum taken back so far, this record included */
  readonly refunded_minor: bigint;
  readonly currency: string;
  /** why it was taken back: a refund reason, changed_money, amended, total_merged */
  readonly reason: string | null;
  /** why the commission is held: fraud_review, claimed_by_another_partner, disputed_total */
  readonly review: string | null;
  /** how the partner was credited: click, rule, ... */
  readonly method: string;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
  /** did of the sale when its customer is a person */
  readonly device: string | null;
  /**
   * of a sale that is credited again: the contracts that were known at this time hold for it; null:
   * those that were known when this record's claim was received
   */
  readonly known_at: UnixMs | null;
  /** false: credited without a commission until the line is credited again */
  readonly recalculates: boolean;
  /** when the hold begins, if the sale was received later than occurred_at; null: at occurred_at */
  readonly hold_from: UnixMs | null;
  /** whose time occurred_at is, if it is not the event's: click, receipt */
  readonly dated_by: string | null;
  /** why it is not the event's, as on the claim */
  readonly dated_because: string | null;
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

/**
 * Who is credited for an event, or why nobody is; every candidate that was considered and why it
 * lost.
 */
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

export type DecisionKind =
  | "assign"
  | "reattribute"
  | "take_back"
  | "release"
  | "flag"
  | "reject"
  | "reprocess"
  | "recredit";

export type DecisionScope = "order" | "line" | "event";

/**
 * What a person or a job has decided about an order, one of its lines, or an event that is no
 * claim.
 */
export interface Decision {
  /** a UUID; the same decision made again has the same id, and counts once */
  readonly decision_id: string;
  /**
   * assign: to partner_id what nobody is credited for; reattribute: to partner_id whoever holds it;
   * take_back: to nobody; reject: to nobody, for fraud; release: a held commission is payable;
   * flag: more fraud reasons, with what follows from the score; reprocess: what today's code and
   * rules make of the event, which the claim carries with the version that it was computed against;
   * recredit: the line is credited again to whoever holds it, so that its commission follows
   * today's contract
   */
  readonly kind: DecisionKind;
  /**
   * order: every line of order_key; line: the one of the claim's event; event: the claim's event,
   * which is no claim itself and whose row is rewritten from the bytes at hand
   */
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
  /** of reprocess: the partners whom copies of the line are credited to today */
  readonly claimed_by: readonly number[];
  /** false: whom it credits earns nothing by it until the line is credited again: no money moves */
  readonly recalculates: boolean;
  /**
   * of release, about an order whose total and lines are of another worth: total or lines,
   * whichever stands; null: such lines stay held
   */
  readonly keep: string | null;
  /**
   * of take_back, by the undo of an import: what the claim's event, a row of that import, says of
   * the order counts no more; false: the line goes back from its partner
   */
  readonly withdraws: boolean;
}

/**
 * Something that a client may hear of: what outbound webhooks and the audit read. Holds no personal
 * data.
 */
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
  /** email, login, phone, session, click, fingerprint; across clients email_across, phone_across */
  readonly kind: string;
  /** HMAC(client pepper, ...), hex; across clients under the second pepper */
  readonly identifier: string;
  /** how it is known, e.g. email_on_event */
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
  /**
   * whom the device belongs to as far as was known: a hash made of the strongest identifier that it
   * showed
   */
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
  /**
   * of the first copy of a sale: what was given back of it so far; null on other events, and on
   * sales that were settled before this was kept
   */
  readonly refunded_minor: bigint | null;
}

/** An event with what enrich found out. */
export interface EventEnriched {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
}

/** A hash that is the same for every client. */
export interface AcrossIdentifier {
  /** email or phone */
  readonly kind: string;
  /** HMAC(second pepper, SHA-256(form)), hex */
  readonly identifier: string;
}

/**
 * One tracking event as an edge admitted it: validated, personal data hashed, nothing looked up.
 */
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
  /**
   * the request came from the visitor's own device, so its address and user agent are the visitor's
   */
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
  /** hashed e-mail with product, else the client's lead id */
  readonly lead_key: string | null;
  /** identity of a row pulled from an external source */
  readonly sale_hash: string | null;
  readonly import_id: string | null;
  /** all props as one JSON text, personal data hashed */
  readonly props: string;
  /** what was altered on the way in, e.g. ts_clamped, weak_did, pii_hashed */
  readonly warnings: readonly string[];
  /**
   * which request brought it, as 20 hex digits that begin with its time; null where nobody can ask
   * for a receipt
   */
  readonly batch_id: string | null;
  /**
   * the form that its personal data had before they were hashed: domain/personal/personal-form.ts
   */
  readonly personal_form: number;
  /**
   * true: a partner reports what it is paid for, by its own file or its network; null: the source
   * alone says so
   */
  readonly by_partner: boolean | null;
  /** made only where the event's mask allows analytics and cross-client (0x09) */
  readonly across: readonly AcrossIdentifier[];
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

/**
 * One immutable, balanced entry: what a conversion earns a partner, or what is taken back, with the
 * receipt.
 */
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
  /**
   * why nothing was earned (no_contract, cap_reached, zero_value, currency_mismatch) or why it was
   * taken back
   */
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

/**
 * Something that an operator or a schedule did to the log or to what is derived from it. Written
 * before it begins and again when it ends: same operation_id, further phase.
 */
export interface Operation {
  /** op_<uuid> */
  readonly operation_id: string;
  /**
   * rewind, replay, relearn, reprocess, restore, dead_letter_retry, dead_letter_discard, restart
   */
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

/**
 * A thing of the reference data has a further version; whoever keeps a picture of it may refresh.
 * The rows themselves are read from Postgres.
 */
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

/**
 * An event came when its id was taken: another order had been settled under it. A rebuild that
 * meets this event before that other one knows by it which of both was first.
 */
export interface TakenId {
  readonly client_id: number;
  /** that of the claim that came second */
  readonly order_key: string;
  /** uuid */
  readonly event_id: string;
  /** that of its dead letter; null if the event says the same as the first one */
  readonly code: string | null;
  /** that of its dead letter, which names the first event */
  readonly message: string | null;
}
