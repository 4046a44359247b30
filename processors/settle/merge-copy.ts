// What a second copy of one sale adds to the first: fields that were missing, and a server's money
// in place of a pixel's.
import type { Credit, Enrichment, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { namesCurrency } from "./props.ts";
import { inDigitsOf } from "./spread.ts";

/**
 * Browser and server copies of one sale come within this time of each other
 * (docs/design/contracts.md, "Copies"); the span of Meta's deduplication.
 */
export const MERGE_WINDOW_MS = 48 * 3_600_000;

/**
 * Whose amount, currency and quantity stand: the first one known, but a server's before a pixel's.
 */
const isMoneyTaken = (first: EventReceived, copy: EventReceived, hasServerMoney: boolean): boolean =>
  copy.value_minor !== null && (first.value_minor === null || (!hasServerMoney && !copy.client_side));

/** What a sale is worth: the amount of one copy, in the currency of the first that names one. */
export interface Money {
  readonly takesMoney: boolean;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly has_currency: boolean;
}

/**
 * The default currency holds only while no copy names one; an amount that came without a currency
 * is then in the digits of the named one.
 */
export const moneyOf = (
  first: EventReceived,
  copy: EventReceived,
  known: { readonly has_server_money: boolean; readonly has_currency: boolean },
): Money => {
  const takesMoney = isMoneyTaken(first, copy, known.has_server_money);
  const [from, other] = takesMoney ? [copy, first] : [first, copy];
  const isNamed = (event: EventReceived): boolean => (event === first && known.has_currency) || namesCurrency(event);
  if (isNamed(from) || !isNamed(other) || from.value_minor === null)
    return {
      takesMoney,
      value_minor: from.value_minor,
      currency: from.currency ?? other.currency,
      has_currency: isNamed(from) || isNamed(other),
    };
  const value_minor = inDigitsOf(from.value_minor, other.currency!);
  return { takesMoney, value_minor, currency: other.currency, has_currency: true };
};

/** A copy of a whole order says nothing about the money and the goods of one line. */
export const withoutGoods = (copy: EventAttributed): EventAttributed => ({
  ...copy,
  event: {
    ...copy.event,
    value_minor: null,
    currency: null,
    quantity: null,
    product_line: null,
    dedup_key: null,
    sale_hash: null,
  },
});

/**
 * Address, browser text, consent and props stay those of the first copy: they describe its sender.
 */
const mergedEvent = (
  first: EventReceived,
  copy: EventReceived,
  { takesMoney, value_minor, currency }: Money,
): EventReceived => ({
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
  product_line: first.product_line ?? copy.product_line,
  quantity: takesMoney ? (copy.quantity ?? first.quantity) : (first.quantity ?? copy.quantity),
  value_minor,
  currency,
  partner_ref: first.partner_ref ?? copy.partner_ref,
  dedup_key: first.dedup_key ?? copy.dedup_key,
  lead_key: first.lead_key ?? copy.lead_key,
  sale_hash: first.sale_hash ?? copy.sale_hash,
  import_id: first.import_id ?? copy.import_id,
  props: first.props,
  warnings: first.warnings,
  batch_id: first.batch_id,
  personal_form: first.personal_form,
  across: first.across,
});

const mergedEnrichment = (first: Enrichment, copy: Enrichment): Enrichment => ({
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

const sameFields = <T extends object>(a: T, b: T): boolean =>
  (Object.keys(a) as (keyof T)[]).every((field) => a[field] === b[field]);

/**
 * The first copy's row with what the second one adds, one version up; the same row when it adds
 * nothing.
 */
export const mergeCopy = (
  first: EventAttributed,
  copy: EventAttributed,
  money: Money,
  takesCredit: boolean,
): EventAttributed => {
  const event = mergedEvent(first.event, copy.event, money);
  const enrichment = mergedEnrichment(first.enrichment, copy.enrichment);
  if (!takesCredit && sameFields(event, first.event) && sameFields(enrichment, first.enrichment)) return first;
  return {
    event,
    enrichment,
    fraud: first.fraud,
    credit: takesCredit ? copy.credit : first.credit,
    version: first.version + 1,
    merged_into: first.merged_into,
    refunded_minor: first.refunded_minor,
  };
};

/**
 * The credit shown on an event is the credit that was settled, and a copy is credited to no
 * partner: what would have won lost to the first copy.
 */
const creditOfCopy = (credit: Credit): Credit => ({
  status: "unattributed",
  method: null,
  reason: "duplicate_order",
  partner_id: null,
  campaign_id: null,
  link_id: null,
  rule_id: null,
  rule_version: null,
  clicked_at: credit.clicked_at,
  window_days: credit.window_days,
  candidates: credit.candidates.map((candidate) => ({
    method: candidate.method,
    reference: candidate.reference,
    partner_id: candidate.partner_id,
    campaign_id: candidate.campaign_id,
    outcome: candidate.outcome === "won" ? "duplicate_order" : candidate.outcome,
  })),
  reference_as_of: credit.reference_as_of,
});

/** The row of the copy itself: kept for receipts and for the sums, left out of what is current. */
export const rowOfCopy = (copy: EventAttributed, firstEventId: string): EventAttributed => ({
  event: copy.event,
  enrichment: copy.enrichment,
  fraud: copy.fraud,
  credit: creditOfCopy(copy.credit),
  version: copy.version,
  merged_into: firstEventId,
  refunded_minor: null,
});
