// What may happen to a few orders, as senders, people and the shop's own books say it; and what
// must come of it.

export interface Terms {
  readonly type: "percent" | "flat" | "hybrid" | "recurring" | "tiered";
  readonly rate_ppm?: bigint;
  /** This and all other amounts are in minor units of the client's currency. */
  readonly amount?: bigint;
  readonly min?: bigint;
  readonly max?: bigint;
  readonly months?: number;
  /** `from` in minor units where `price` is a rate in ppm, in sales where it is an amount. */
  readonly tiers?: readonly { readonly from: bigint; readonly price: bigint }[];
  readonly paysAmounts?: boolean;
  readonly isRetroactive?: boolean;
  readonly cap?: { readonly period: "day" | "month" | "lifetime"; readonly amount: bigint };
}
export interface ContractSaved extends Terms {
  readonly client: number;
  readonly partner: number;
  readonly segment: string | null;
  readonly event_type: string;
  readonly from: number;
  readonly to: number | null;
  readonly recordedAt: number;
}
export interface ClientSaved {
  readonly id: number;
  readonly currency: string;
  readonly holdDays: Readonly<Record<string, number>>;
}

/** One event of a sender. Amounts are decimal texts, times Unix milliseconds. */
export interface Sent {
  readonly is: "event";
  readonly id: string;
  readonly client: number;
  readonly t: string;
  readonly name?: string;
  readonly ts: number;
  readonly receivedAt: number;
  readonly isPixel: boolean;
  readonly did: string;
  readonly person?: string;
  readonly verdict: "ok" | "review" | "reject";
  readonly click?: { readonly partner: number; readonly at: number; readonly isForged?: boolean };
  readonly order?: string;
  readonly product?: string;
  readonly segment?: string;
  readonly amount?: string;
  readonly currency?: string;
  readonly refundId?: string;
  /** Of a refund: the event that it is about. */
  readonly about?: string;
  readonly email?: string;
  readonly leadId?: string;
  readonly coupon?: string;
  readonly url?: string;
}
/** What a campaign credits by; the links of `one` are of one partner, those of `all` of each. */
export interface PatternSaved {
  readonly client: number;
  readonly campaign: "all" | "one";
  readonly kind: "coupon" | "utm_campaign" | "utm_source" | "url_prefix";
  readonly value: string;
  readonly partner?: number;
}
/** From `recordedAt` on nothing is booked in this month of a partner any more. */
export interface Closed {
  readonly client: number;
  readonly partner: number;
  readonly year: number;
  readonly month: number;
  readonly recordedAt: number;
}
/** What a person decides about an order, one of its lines, or the line of an event. */
export interface Decided {
  readonly is: "decision";
  readonly id: string;
  readonly client: number;
  readonly kind: "assign" | "reattribute" | "take_back" | "release" | "reject" | "flag";
  /** Of a flag, which a nightly pass writes: what the score of its event comes to. */
  readonly band?: "ok" | "review" | "reject";
  readonly partner?: number;
  readonly order?: string;
  readonly product?: string;
  readonly about?: string;
  readonly receivedAt: number;
}
/** The keeper looks up the events that waiting refunds name. */
interface LookedUp {
  readonly is: "look-up";
  readonly id: string;
  readonly receivedAt: number;
}
export type Happening = Sent | Decided | LookedUp;
export interface History {
  readonly clients: readonly ClientSaved[];
  readonly contracts: readonly ContractSaved[];
  readonly patterns: readonly PatternSaved[];
  readonly closed: readonly Closed[];
  /** In the order in which they arrive. */
  readonly happenings: readonly Happening[];
}

export interface Line {
  readonly status: "open" | "credited" | "reversed";
  readonly partner: number | null;
  readonly account: "payable" | "held" | null;
  /** What is left for the partner who is credited, in minor units. */
  readonly left: bigint;
  /** What was sold and what of it was given back: what reports count, credited or not. */
  readonly sold: bigint;
  readonly refunded: bigint;
  readonly currency: string;
  /** When what a sale earned by itself, without tiers, may be paid. */
  readonly payableFrom: number | null;
}
export interface Answers {
  /** By client and the id of the event that made the line. */
  readonly lines: Readonly<Record<string, Line>>;
  /**
   * By line (or `tiers`), partner, account, currency and month: what the partner has earned there,
   * unless nothing.
   */
  readonly money: Readonly<Record<string, bigint>>;
  /** Events that were refused, or set aside as dead letters, with the code. */
  readonly refused: Readonly<Record<string, string>>;
}
