// What a second copy of one sale adds to the first: fields that were missing, and a server's money
// in place of a pixel's.
import type { Credit, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { mergedEnrichment, mergedEvent, withoutLine } from "../../schemas/generated-fields.ts";
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
export const withoutGoods = (copy: EventAttributed): EventAttributed => ({ ...copy, event: withoutLine(copy.event) });

/** A row that was remembered before a field was known lacks it, which is the same as null. */
const sameFields = <T extends object>(a: T, b: T): boolean =>
  (Object.keys(a) as (keyof T)[]).every((field) => (a[field] ?? null) === (b[field] ?? null));

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
