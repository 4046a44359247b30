// Records and reference rows with fixed, boring defaults: a test states only the values that matter
// to it.

import { blankEvent, nothingFound } from "../../domain/nothing-found.ts";
import type {
  Campaign,
  Client,
  Contract,
  Link,
  Partner,
  Reference,
  ReferenceRows,
  Rule,
} from "../../domain/reference/reference.ts";
import { referenceOf } from "../../domain/reference/snapshot.ts";
import { nightlyDefaults } from "../../domain/reference/thresholds.ts";
import type {
  Claim,
  Conversion,
  Credit,
  Enrichment,
  EventAttributed,
  EventEnriched,
  EventReceived,
  EventScored,
  Fraud,
} from "../../schemas/generated.ts";
import type { Position, Read, Recorded, Topic, UnixMs, View } from "../../stream/flow.ts";

/** Changes the last character of an id: the form is right, the proof is wrong. */
export const forged = (id: string): string => id.slice(0, -1) + (id.endsWith("A") ? "B" : "A");

export const secondMs = 1_000;
export const hourMs = 3_600 * secondMs;
export const dayMs = 24 * hourMs;

/** The default time of all events: noon of 15 June 2026 in Mexico City. */
export const noon: UnixMs = Date.UTC(2026, 5, 15, 18);
/** The default `valid_from` and `recorded_at` of reference rows. */
export const longAgo: UnixMs = Date.UTC(2026, 0, 1);

export const clientId = 7;
export const partnerId = 21;
export const campaignId = 31;
export const linkId = 41;

/**
 * Wraps data as the runner does: id and key come from the topic, event time and receive time are
 * noon.
 */
export const recorded = <T>(
  topic: Topic<T>,
  data: T,
  over: { readonly at?: UnixMs; readonly receivedAt?: UnixMs; readonly position?: Position } = {},
): Recorded<T> => {
  const at = over.at ?? noon;
  return {
    id: topic.idOf(data),
    key: topic.keyOf(data),
    at,
    receivedAt: over.receivedAt ?? at,
    position: over.position ?? { topic: topic.name, partition: 0, offset: 0 },
    data,
  };
};

/** A page view of client 7 on the web, sent by the visitor's own browser. */
export const received = (over: Partial<EventReceived> = {}): EventReceived =>
  blankEvent({
    event_id: "00000000-0000-8000-8000-000000000001",
    client_id: clientId,
    did: "d1",
    t: "page_view",
    ts: noon,
    source: "pixel",
    client_side: true,
    url: "https://shop.example/",
    consent: 0xff,
    ...over,
  });

/** A visitor's explicit choice, as the browser's script sends it. */
export const choice = (over: Partial<EventReceived>, mask: number, signals: object = {}): EventReceived =>
  received({
    t: "custom",
    custom_name: "consent",
    consent: mask,
    props: JSON.stringify({ mask, ...signals }),
    ...over,
  });

/** One line of order o1: one unit of sku1 for 100.00 MXN. */
export const purchase = (over: Partial<EventReceived> = {}): EventReceived =>
  received({
    t: "purchase",
    order_id: "o1",
    product_id: "sku1",
    product_line: "MX",
    quantity: 1,
    value_minor: 100_00n,
    currency: "MXN",
    ...over,
  });

export const enrichment = (over: Partial<Enrichment> = {}): Enrichment => ({
  ...nothingFound.enrichment,
  consent: 0xff,
  ...over,
});

export const fraud = (over: Partial<Fraud> = {}): Fraud => ({ ...nothingFound.fraud, ...over });

/** A credit without a partner, because there is no click. */
export const credit = (over: Partial<Credit> = {}): Credit => ({
  status: "unattributed",
  method: null,
  reason: "no_click",
  partner_id: null,
  campaign_id: null,
  link_id: null,
  rule_id: null,
  rule_version: null,
  clicked_at: null,
  window_days: 30,
  candidates: [],
  reference_as_of: null,
  ...over,
});

/** Partner 21 is credited by a click on link 41 an hour ago. */
export const clickCredit = (over: Partial<Credit> = {}): Credit =>
  credit({
    status: "attributed",
    method: "click",
    reason: null,
    partner_id: partnerId,
    campaign_id: campaignId,
    link_id: linkId,
    clicked_at: noon - hourMs,
    ...over,
  });

export const enriched = (event: Partial<EventReceived> = {}, over: Partial<Enrichment> = {}): EventEnriched => ({
  event: received(event),
  enrichment: enrichment(over),
});

export const scored = (
  event: Partial<EventReceived> = {},
  over: { readonly enrichment?: Partial<Enrichment>; readonly fraud?: Partial<Fraud> } = {},
): EventScored => ({ event: received(event), enrichment: enrichment(over.enrichment), fraud: fraud(over.fraud) });

/** A purchase by default; pass `credit: clickCredit()` for one that earns. */
export const attributed = (
  event: Partial<EventReceived> = {},
  over: {
    readonly enrichment?: Partial<Enrichment>;
    readonly fraud?: Partial<Fraud>;
    readonly credit?: Partial<Credit>;
    readonly version?: number;
    readonly merged_into?: string | null;
    readonly refunded_minor?: bigint | null;
  } = {},
): EventAttributed => ({
  event: purchase(event),
  enrichment: enrichment(over.enrichment),
  fraud: fraud(over.fraud),
  credit: credit(over.credit),
  version: over.version ?? 1,
  merged_into: over.merged_into ?? null,
  refunded_minor: over.refunded_minor ?? null,
});

/** A credited purchase of order o1 by default. */
export const claim = (over: Partial<Claim> = {}): Claim => ({
  client_id: clientId,
  order_key: "o:o1",
  kind: "conversion",
  attributed: attributed({}, { credit: clickCredit() }),
  decision: null,
  line_event_id: null,
  currency: null,
  dated_by: null,
  dated_because: null,
  moved: null,
  ...over,
});

/** 100.00 MXN credited to partner 21 for its line of order o1. */
export const conversion = (over: Partial<Conversion> = {}): Conversion => ({
  change_id: "chg_1",
  conversion_id: "cnv_1",
  kind: "credited",
  version: 1,
  client_id: clientId,
  partner_id: partnerId,
  campaign_id: campaignId,
  event_id: "00000000-0000-8000-8000-000000000001",
  cause_event_id: "00000000-0000-8000-8000-000000000001",
  event_type: "purchase",
  order_id: "o1",
  product_id: "sku1",
  segment: "MX",
  quantity: 1,
  customer: "d1",
  occurred_at: noon,
  value_minor: 100_00n,
  line_value_minor: 100_00n,
  refunded_minor: 0n,
  currency: "MXN",
  reason: null,
  review: null,
  method: "click",
  rule_id: null,
  rule_version: null,
  device: null,
  known_at: null,
  recalculates: true,
  hold_from: null,
  dated_by: null,
  dated_because: null,
  ...over,
});

export const client = (over: Partial<Client> = {}): Client => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  client_id: clientId,
  slug: "acme",
  name: "Acme",
  status: "active",
  currency: "MXN",
  click_window_days: 30,
  install_window_days: 7,
  identity_link: false,
  hold_days: { purchase: 30, lead_submit: 0 },
  late_hours: 72,
  fraud_review: 40,
  fraud_reject: 70,
  fraud_nightly: nightlyDefaults,
  consent_default: 0xff,
  jurisdiction: "MX",
  fraud_rules: {},
  fraud_exclusions: [],
  segments: ["MX", "VD", "DA", "HA", "IT", "NW"],
  fallback_url: null,
  ...over,
});

export const partner = (over: Partial<Partner> = {}): Partner => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  partner_id: partnerId,
  name: "Partner",
  status: "active",
  client_ids: [clientId],
  referral_code: null,
  email_sha256: null,
  ...over,
});

export const campaign = (over: Partial<Campaign> = {}): Campaign => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  campaign_id: campaignId,
  client_id: clientId,
  name: "Campaign",
  status: "active",
  starts_at: null,
  ends_at: null,
  patterns: [],
  destination_url: "https://shop.example/",
  fallback_url: null,
  ...over,
});

export const link = (over: Partial<Link> = {}): Link => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  link_id: linkId,
  client_id: clientId,
  campaign_id: campaignId,
  partner_id: partnerId,
  code: "promo",
  status: "active",
  ...over,
});

/** 10 % of every purchase. */
export const contract = (over: Partial<Contract> = {}): Contract => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  contract_id: 61,
  version: 1,
  client_id: clientId,
  partner_id: partnerId,
  segment: null,
  event_type: "purchase",
  type: "percent",
  rate_ppm: 100_000n,
  currency: null,
  amount_minor: null,
  tiers: [],
  tier_mode: "marginal",
  months: null,
  per: "line",
  min_minor: null,
  max_minor: null,
  cap: null,
  status: "active",
  effective_from: longAgo,
  effective_to: null,
  ...over,
});

/**
 * The effect of a rule. Only this place writes the property `then`, which makes an object look like
 * a promise.
 */
export const crediting = (partner_id: number, campaign_id?: number): Pick<Rule, "then"> => ({
  // biome-ignore lint/suspicious/noThenProperty: a wire name; rules are never awaited
  then: campaign_id === undefined ? { partner_id } : { partner_id, campaign_id },
});

/** Matches every purchase, for partner 21. */
export const rule = (over: Partial<Rule> = {}): Rule => ({
  recorded_at: longAgo,
  valid_from: longAgo,
  rule_id: 51,
  version: 1,
  client_id: clientId,
  name: "Every purchase",
  status: "active",
  priority: 0,
  effective_from: null,
  effective_to: null,
  when: { field: "t", op: "eq", value: "purchase" },
  ...crediting(partnerId),
  ...over,
});

/**
 * One client with one partner, campaign, link and contract, and no rules. A list in `over` replaces
 * the default list.
 */
export const referenceRows = (over: Partial<ReferenceRows> = {}): ReferenceRows => ({
  clients: [client()],
  partners: [partner()],
  campaigns: [campaign()],
  links: [link()],
  contracts: [contract()],
  rules: [],
  periods: [],
  ...over,
});

export const referenceWith = (over: Partial<ReferenceRows> = {}): Reference =>
  referenceOf(referenceRows(over), noon + dayMs);

/** A reader for facts loaders: returns the given values, and throws for a view without one. */
export const reads =
  (...known: readonly (readonly [View<any>, unknown])[]): Read =>
  (view) => {
    const found = known.find(([candidate]) => candidate.view === view.view);
    if (found === undefined) throw new Error(`no value was given for the view ${view.view}`);
    return Promise.resolve(found[1] as any);
  };
