// The data that stages and edges look up: clients, partners, campaigns, links, contracts and rules,
// as known at any moment.
import type { UnixMs, View } from "../../stream/flow.ts";
import type { NightlyThresholds } from "./thresholds.ts";

/**
 * Rows are appended and never edited. What was known at a moment is the newest row of an id
 * recorded up to then.
 */
export interface RowTimes {
  readonly recorded_at: UnixMs;
  /**
   * The event time from which this row is valid. A later row of the same id with a later valid_from
   * does not change earlier times.
   */
  readonly valid_from: UnixMs;
  /**
   * The version of the row. A change that saves a thing twice writes two versions with the same
   * recorded_at.
   */
  readonly version?: number;
}
export interface Client extends RowTimes {
  readonly client_id: number;
  readonly slug: string;
  readonly name: string;
  readonly status: "active" | "paused" | "archived";
  readonly currency: string;
  readonly click_window_days: number;
  readonly install_window_days: number;
  readonly identity_link: boolean;
  /** Days from the event until its commission is payable, by event type. Absent means 0. */
  readonly hold_days: Readonly<Record<string, number>>;
  /** The age in hours up to which the time of a server counts for money. */
  readonly late_hours: number;
  readonly fraud_review: number;
  readonly fraud_reject: number;
  readonly fraud_nightly: NightlyThresholds;
  readonly consent_default: number;
  /**
   * Where the client's visitors are. In the EU, the UK and BR nothing is allowed until a visitor
   * agrees.
   */
  readonly jurisdiction: "MX" | "EU" | "UK" | "BR";
  /** The client's settings of the fraud rules, by rule code. */
  readonly fraud_rules: Readonly<
    Record<string, { readonly active?: boolean; readonly weight?: number; readonly threshold?: number }>
  >;
  /** Events that the client trusts even if fraud rules flag them. */
  readonly fraud_exclusions: readonly FraudExclusion[];
  readonly segments: readonly string[];
  /** The target for visitors of an unused link whose campaign has no fallback. */
  readonly fallback_url: string | null;
}
export interface FraudExclusion {
  readonly kind: "network" | "device";
  /** An address range, a single address, or a device id as hashed on events. */
  readonly value: string;
  readonly author: string;
  readonly reason: string;
}
export interface Partner extends RowTimes {
  readonly partner_id: number;
  readonly name: string;
  readonly status: "invited" | "active" | "paused" | "archived";
  readonly client_ids: readonly number[];
  readonly referral_code: string | null;
  /**
   * SHA-256 (hex) of the normalised e-mail address. Hashed with a client's pepper, it can be
   * compared with that client's events.
   */
  readonly email_sha256: string | null;
}
/**
 * A pattern that names a campaign without a click: a coupon code, a UTM value, or the beginning of
 * an address.
 */
export interface CampaignPattern {
  readonly kind: "coupon" | "utm_campaign" | "utm_source" | "url_prefix";
  readonly value: string;
  readonly partner_id?: number;
}
export interface Campaign extends RowTimes {
  readonly campaign_id: number;
  readonly client_id: number;
  readonly name: string;
  readonly status: "draft" | "active" | "paused" | "ended";
  readonly starts_at: UnixMs | null;
  readonly ends_at: UnixMs | null;
  readonly patterns: readonly CampaignPattern[];
  /** Where the campaign's links lead. */
  readonly destination_url: string;
  /** Where the links lead while the campaign is not active. Null means the client's fallback. */
  readonly fallback_url: string | null;
}
export interface Link extends RowTimes {
  readonly link_id: number;
  readonly client_id: number;
  readonly campaign_id: number;
  readonly partner_id: number;
  readonly code: string;
  readonly status: "active" | "archived";
}
/**
 * One step of a tiered contract: the price of the part of a month's volume above `from` (or, if
 * retroactive, of all of it).
 */
export interface Tier {
  /**
   * Minor units of the month's volume for tiers with a rate, or a number of sales for tiers with an
   * amount.
   */
  readonly from: bigint;
  readonly rate_ppm: bigint | null;
  readonly amount_minor: bigint | null;
}
export type CapPeriod = "day" | "month" | "lifetime";
export interface Cap {
  readonly period: CapPeriod;
  readonly amount_minor: bigint;
}
/**
 * A segment's commission terms for sales from effective_from up to, but not including,
 * effective_to. Rates are parts per million: 10 % is 100,000.
 */
export interface Contract extends RowTimes {
  readonly contract_id: number;
  readonly version: number;
  readonly client_id: number;
  readonly partner_id: number;
  readonly segment: string | null;
  readonly event_type: string;
  readonly type: "percent" | "flat" | "tiered" | "recurring" | "hybrid";
  readonly rate_ppm: bigint | null;
  /**
   * The currency of every amount in the contract: the client's when it was saved. Null if it
   * contains no amounts.
   */
  readonly currency: string | null;
  readonly amount_minor: bigint | null;
  /** The lowest `from` first. Empty unless the contract is tiered. */
  readonly tiers: readonly Tier[];
  readonly tier_mode: "marginal" | "retroactive";
  /**
   * The number of months after a customer's first sale in which a recurring contract pays. Null
   * means for life.
   */
  readonly months: number | null;
  /**
   * Whether its amounts (a flat amount, a minimum, a maximum, and what tiers count as a sale) are
   * those of an order or of each line of it.
   */
  readonly per: "order" | "line";
  readonly min_minor: bigint | null;
  readonly max_minor: bigint | null;
  readonly cap: Cap | null;
  readonly status: "active" | "archived";
  readonly effective_from: UnixMs;
  readonly effective_to: UnixMs | null;
}
/**
 * The event types that can earn. In addition, custom events can, each under a contract for its own
 * name.
 */
export const EARNING_TYPES: readonly string[] = ["purchase", "lead_submit", "install"];

/**
 * The type under which an event's contract is found. An order line has one contract, whichever copy
 * of it arrived first. So a sale reported by an app uses the contracts, caps, tiers and holds of
 * `purchase`.
 */
export const contractTypeOf = (eventType: string): string => (eventType === "ext_purchase" ? "purchase" : eventType);

/**
 * Whether a partner's month is closed: its payment was approved, so later decisions are booked in
 * the next open month.
 */
interface Period extends RowTimes {
  readonly client_id: number;
  readonly partner_id: number;
  readonly year: number;
  readonly month: number;
  readonly status: "closed" | "open";
}
export type PeriodOf = Pick<Period, "client_id" | "partner_id" | "year" | "month">;
export type Operator =
  | "eq"
  | "ne"
  | "in"
  | "not_in"
  | "contains"
  | "starts_with"
  | "ends_with"
  | "gt"
  | "gte"
  | "lt"
  | "lte"
  | "between"
  | "exists";
export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition }
  | { readonly field: string; readonly op: Operator; readonly value: unknown };
export interface Rule extends RowTimes {
  readonly rule_id: number;
  readonly version: number;
  readonly client_id: number;
  readonly name: string;
  readonly status: "active" | "inactive";
  readonly priority: number;
  readonly effective_from: UnixMs | null;
  readonly effective_to: UnixMs | null;
  readonly when: Condition;
  readonly then: { readonly partner_id: number; readonly campaign_id?: number };
}
export interface ReferenceRows {
  readonly clients: readonly Client[];
  readonly partners: readonly Partner[];
  readonly campaigns: readonly Campaign[];
  readonly links: readonly Link[];
  readonly contracts: readonly Contract[];
  readonly rules: readonly Rule[];
  readonly periods: readonly Period[];
}

/**
 * Reference data valid at one event time, as known at one moment. Stages decide with nothing else.
 * A class, because every event has its own and an object of closures cost 1 KB of garbage. Abstract
 * methods also make the compiler refuse a spread copy, which would lack them.
 */
export abstract class ReferenceAt {
  abstract client(clientId: number): Client | undefined;
  abstract partner(partnerId: number): Partner | undefined;
  abstract campaign(campaignId: number): Campaign | undefined;
  abstract link(linkId: number): Link | undefined;
  /** The link of a client with this code. */
  abstract linkByCode(clientId: number, code: string): Link | undefined;
  /** The client's partners, lowest id first. */
  abstract partnersOf(clientId: number): readonly Partner[];
  /** The client's campaigns that have patterns, lowest id first. */
  abstract campaignsWithPatterns(clientId: number): readonly Campaign[];
  /** The partners that the active links of a campaign credit, lowest id first. */
  abstract partnersOfCampaign(campaignId: number): readonly number[];
  /**
   * The active rules in force, in order of precedence: highest priority, then most leaves, then
   * lowest id.
   */
  abstract rules(clientId: number): readonly Rule[];
  /**
   * The contract of a sale. A contract for the exact segment comes before one for all segments. Of
   * several in force, the one with the newest effective_from wins.
   */
  abstract contract(sale: {
    client_id: number;
    partner_id: number;
    segment: string | null;
    event_type: string;
  }): Contract | undefined;
  /**
   * True if any partner of the client earns on this event type now. Such custom events are claims.
   */
  abstract isCommissioned(clientId: number, eventType: string): boolean;
  abstract isClosed(period: PeriodOf): boolean;
}

/**
 * A snapshot of the reference tables. It contains everything recorded before `asOf` (database
 * time).
 */
export interface Reference {
  readonly asOf: UnixMs;
  readonly at: (validAt: UnixMs, knownAt: UnixMs) => ReferenceAt;
  readonly clientIdOf: (slug: string) => number | undefined;
  /** A code belongs to one link across all clients, for ever. */
  readonly linkIdOf: (code: string) => number | undefined;
  /** The ids of all current and former clients, lowest first. */
  readonly clientIds: readonly number[];
}
export const reference: View<Reference> = { view: "reference" };
