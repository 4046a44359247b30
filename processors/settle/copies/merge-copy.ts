// Merges a second copy of a sale into the first: it fills missing fields, and a server's money
// replaces a pixel's.
import type { Credit, EventAttributed, EventReceived } from "../../../schemas/generated.ts";
import { type Decisions, mergedEnrichment, mergedEvent, withoutLine } from "../../../schemas/generated-fields.ts";
import { namesCurrency } from "../props.ts";
import { inDigitsOf } from "../spread.ts";
import { isOfClient, isOfPartner } from "./segment.ts";

/**
 * The longest time between the browser's and the server's copy of one sale
 * (docs/design/contracts.md, "Copies"). Meta deduplicates within the same span.
 */
export const MERGE_WINDOW_MS = 48 * 3_600_000;

/**
 * True if amount, currency and quantity of the copy are used: the first known amount counts, but a
 * server's replaces a pixel's, and one of the client's own systems an earlier one of any server.
 */
const isMoneyTaken = (first: EventReceived, copy: EventReceived, { has_server_money, mayAmend }: MoneyKnown): boolean =>
  copy.value_minor !== null &&
  (first.value_minor === null || (has_server_money ? mayAmend && isOfClient(copy) : !copy.client_side));

/** The money of a sale: the amount of one copy, in the first currency that any copy names. */
export interface Money {
  readonly takesMoney: boolean;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly has_currency: boolean;
}

/** What is known of the money of a line before a copy. */
interface MoneyKnown {
  readonly has_server_money: boolean;
  readonly has_currency: boolean;
  /** True if the copy may amend a server's amount, as far as its time and product say. */
  readonly mayAmend: boolean;
}

/**
 * The default currency applies only until a copy names one, which a partner cannot for the amount
 * of another server. An amount that came without a currency then gets the digits of the named one.
 */
export const moneyOf = (first: EventReceived, copy: EventReceived, known: MoneyKnown): Money => {
  const takesMoney = isMoneyTaken(first, copy, known);
  const [from, other] = takesMoney ? [copy, first] : [first, copy];
  const isNamed = (event: EventReceived): boolean => {
    if (event === copy && !takesMoney && known.has_server_money && isOfPartner(copy)) return false;
    return (event === first && known.has_currency) || namesCurrency(event);
  };
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

/** A copy of a whole order has no information about the money and goods of one line. */
export const withoutGoods = (copy: EventAttributed): EventAttributed => ({ ...copy, event: withoutLine(copy.event) });

/** A row that was stored before a field existed lacks it, which means the same as null. */
const sameFields = <T extends object>(a: T, b: T): boolean =>
  (Object.keys(a) as (keyof T)[]).every((field) => (a[field] ?? null) === (b[field] ?? null));

/**
 * Returns the first copy's row with the additions of the second copy as the next version, or the
 * same row if there are none.
 */
export const mergeCopy = (
  first: EventAttributed,
  copy: EventAttributed,
  decided: Decisions,
  takesCredit: boolean,
): EventAttributed => {
  const event = mergedEvent(first.event, copy.event, decided);
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

/** The row with some other fields of its event, as the next version. */
export const nextRow = (row: EventAttributed, changed: Partial<EventReceived>): EventAttributed => ({
  ...row,
  event: { ...row.event, ...changed },
  version: row.version + 1,
});

/**
 * The row of a copy credits no partner, because only the first copy's credit was settled. A
 * contender who would have won lost to the first copy.
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

/** The row of the copy itself. Receipts and sums use it, but it is not part of the current data. */
export const rowOfCopy = (copy: EventAttributed, firstEventId: string): EventAttributed => ({
  event: copy.event,
  enrichment: copy.enrichment,
  fraud: copy.fraud,
  credit: creditOfCopy(copy.credit),
  version: copy.version,
  merged_into: firstEventId,
  refunded_minor: null,
});
