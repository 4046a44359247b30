// The types of a history of a few orders: events of senders, decisions of people, closed months;
// and the answers that must come out.

export interface Terms {
  readonly type: "percent" | "flat" | "hybrid" | "recurring" | "tiered";
  readonly rate_ppm?: bigint;
  /** This and all other amounts are in minor units of the client's currency. */
  readonly amount?: bigint;
  readonly min?: bigint;
  readonly max?: bigint;
  readonly months?: number;
  /** `from` is in minor units if `price` is a rate in ppm, and in sales if it is an amount. */
  readonly tiers?: readonly { readonly from: bigint; readonly price: bigint }[];
  readonly paysAmounts?: boolean;
  readonly isRetroactive?: boolean;
  /** Its amounts, and what its tiers count, are those of an order. */
  readonly isPerOrder?: boolean;
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
  /** A further version of the contract before it: what is known of that ends with it. */
  readonly isNextVersion?: boolean;
}
export interface ClientSaved {
  readonly id: number;
  readonly currency: string;
  readonly holdDays: Readonly<Record<string, number>>;
  /** How old the time of a server may be. */
  readonly lateHours: number;
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
  /** A file or a pull tells of the past. Absent: a page or a server sends it as it happens. */
  readonly door?: "upload" | "pull";
  /** The file that the row was in. */
  readonly file?: string;
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
  /** Absent: the shop's own server, or the browser. */
  readonly source?: string;
  /** Only for a refund: the event that it names. */
  readonly about?: string;
  readonly email?: string;
  readonly leadId?: string;
  readonly coupon?: string;
  readonly url?: string;
  /** What names the sale of a mapped payload, and of a pulled row, that has no order. */
  readonly dedupKey?: string;
  readonly saleHash?: string;
}
/**
 * The pattern of a campaign. Links of campaign `one` belong to one partner, those of `all` to every
 * partner.
 */
export interface PatternSaved {
  readonly client: number;
  readonly campaign: "all" | "one";
  readonly kind: "coupon" | "utm_campaign" | "utm_source" | "url_prefix";
  readonly value: string;
  readonly partner?: number;
}
/** From `recordedAt` on, this month of a partner takes no more bookings, or takes them again. */
export interface Closed {
  readonly client: number;
  readonly partner: number;
  readonly year: number;
  readonly month: number;
  readonly recordedAt: number;
  readonly isReopened?: boolean;
}
/** A person's decision about an order, one of its lines, or the line of an event. */
export interface Decided {
  readonly is: "decision";
  readonly id: string;
  readonly client: number;
  readonly kind: "assign" | "reattribute" | "take_back" | "release" | "reject" | "flag";
  /** Only for a flag, which the nightly pass writes: the band of the event's new score. */
  readonly band?: "ok" | "review" | "reject";
  readonly partner?: number;
  /** Only for a release: which of a total and its lines stands. */
  readonly keep?: "total" | "lines";
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
/** A job gives the line that an event made to a partner, by a rule, or credits it again. */
export interface Backfilled {
  readonly is: "backfill";
  readonly id: string;
  readonly client: number;
  readonly about: string;
  /** Absent: the line is credited again to the partner that holds it. */
  readonly partner?: number;
  /** The job finds that another partner claims the order. */
  readonly isDisputed: boolean;
  /** False: no money moves. */
  readonly recalculates: boolean;
  readonly receivedAt: number;
}
/** The window is reprocessed with the same code and facts, so nothing changes. */
export interface Reprocessed {
  readonly is: "reprocess";
  readonly id: string;
  readonly client: number;
  readonly from: number;
  readonly to: number;
  readonly receivedAt: number;
}
/** What the rows of a file have said counts no more, except what a person has decided since. */
export interface Undone {
  readonly is: "undo";
  readonly id: string;
  readonly client: number;
  readonly file: string;
  readonly receivedAt: number;
}
export type Happening = Sent | Decided | LookedUp | Backfilled | Reprocessed | Undone;
export interface History {
  readonly clients: readonly ClientSaved[];
  readonly contracts: readonly ContractSaved[];
  readonly patterns: readonly PatternSaved[];
  readonly closed: readonly Closed[];
  /** In the order of arrival. */
  readonly happenings: readonly Happening[];
}

export interface Line {
  readonly status: "open" | "credited" | "reversed";
  readonly partner: number | null;
  readonly account: "payable" | "held" | null;
  /** The rest for the credited partner, in minor units. */
  readonly left: bigint;
  /** The sold and the refunded amount, as reports count them, credited or not. */
  readonly sold: bigint;
  readonly refunded: bigint;
  readonly currency: string;
  /** The moment from which the earnings of a sale may be paid, without tiers. */
  readonly payableFrom: number | null;
}
export interface Answers {
  /** Lines by client and by the id of the event that made the line. */
  readonly lines: Readonly<Record<string, Line>>;
  /**
   * The earnings of the partner by line (or `tiers`), partner, account, currency and month; zeros
   * are left out.
   */
  readonly money: Readonly<Record<string, bigint>>;
  /** Codes of events that were refused or set aside as dead letters. */
  readonly refused: Readonly<Record<string, string>>;
  /** Sums of the ledger that did not hold after some change. */
  readonly broken: readonly string[];
}
