// What stages and edges may look up about clients, partners, campaigns, links, contracts and rules,
// as known at any moment.
import type { UnixMs, View } from "../../stream/flow.ts";
import { contractTypeOf } from "./event-types.ts";
import type { NightlyThresholds } from "./thresholds.ts";

/**
 * Rows are appended and never edited: of one id the newest row recorded up to a moment is what was
 * known then.
 */
interface RowTimes {
  readonly recorded_at: UnixMs;
  /**
   * From when on (event time) this row says how things are; rows of the same id with a later
   * valid_from leave earlier times as they were.
   */
  readonly valid_from: UnixMs;
  /** Of the row; a change that saves a thing twice has two of them with the same moment. */
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
  /** Days from event to payable, by event type; absent means 0. */
  readonly hold_days: Readonly<Record<string, number>>;
  readonly fraud_review: number;
  readonly fraud_reject: number;
  readonly fraud_nightly: NightlyThresholds;
  readonly consent_default: number;
  /** Where its visitors are: in EU, UK and BR nothing is allowed until somebody agrees. */
  readonly jurisdiction: "MX" | "EU" | "UK" | "BR";
  /** What the client has set of the fraud rules, by their codes. */
  readonly fraud_rules: Readonly<
    Record<string, { readonly active?: boolean; readonly weight?: number; readonly threshold?: number }>
  >;
  /** Whom it trusts whatever the rules find. */
  readonly fraud_exclusions: readonly FraudExclusion[];
  readonly segments: readonly string[];
  /** Where visitors of a link that is not in use go, when its campaign does not say. */
  readonly fallback_url: string | null;
}
export interface FraudExclusion {
  readonly kind: "network" | "device";
  /** A range or one address; or a device as events show it, hashed. */
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
   * SHA-256 (hex) of the normalised e-mail; under a client's pepper it can be compared with what
   * that client's events show.
   */
  readonly email_sha256: string | null;
}
/**
 * What names a campaign without a click: a promo code, or a word or the beginning of an address.
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
  /** Where its links lead. */
  readonly destination_url: string;
  /** Where they lead while it is not active; null: where the client says. */
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
 * One step of a tiered contract: what is paid for the part (or, retroactive, for all) of a month's
 * volume from `from` on.
 */
export interface Tier {
  /**
   * Minor units of the month's volume when it pays a rate; a number of sales when it pays an
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
 * A segment commission in force for sales from effective_from up to (not including) effective_to.
 * Rates are parts per million: 10 % is 100,000.
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
   * The currency of every amount in it: that of its client when it was saved. Null when it holds
   * none.
   */
  readonly currency: string | null;
  readonly amount_minor: bigint | null;
  /** Lowest `from` first; empty unless tiered. */
  readonly tiers: readonly Tier[];
  readonly tier_mode: "marginal" | "retroactive";
  /** How long after a customer's first sale a recurring contract pays; null: for life. */
  readonly months: number | null;
  readonly min_minor: bigint | null;
  readonly max_minor: bigint | null;
  readonly cap: Cap | null;
  readonly status: "active" | "archived";
  readonly effective_from: UnixMs;
  readonly effective_to: UnixMs | null;
}
/**
 * Whether a partner's month is closed: its payment was approved, and what is decided later belongs
 * to the next open one.
 */
interface Period extends RowTimes {
  readonly client_id: number;
  readonly partner_id: number;
  readonly year: number;
  readonly month: number;
  readonly status: "closed" | "open";
}
type PeriodOf = Pick<Period, "client_id" | "partner_id" | "year" | "month">;
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
 * Reference data valid at one event time, as known at one moment. Everything a stage decides with.
 * A class, since each event has its own: an object of closures cost 1 KB of garbage. So that the
 * compiler refuses a copy by spread, which would have no methods.
 */
export abstract class ReferenceAt {
  abstract client(clientId: number): Client | undefined;
  abstract partner(partnerId: number): Partner | undefined;
  abstract campaign(campaignId: number): Campaign | undefined;
  abstract link(linkId: number): Link | undefined;
  /** The link of a client that bears this code. */
  abstract linkByCode(clientId: number, code: string): Link | undefined;
  /** Lowest id first. */
  abstract partnersOf(clientId: number): readonly Partner[];
  /** Those of the client that have patterns, lowest id first. */
  abstract campaignsWithPatterns(clientId: number): readonly Campaign[];
  /** Whom the links of a campaign in use credit, lowest id first. */
  abstract partnersOfCampaign(campaignId: number): readonly number[];
  /**
   * Active rules in force, the order in which they win: highest priority, then most leaves, then
   * lowest id.
   */
  abstract rules(clientId: number): readonly Rule[];
  /**
   * The contract of a sale: exact segment before the one for all segments, and of several in force
   * the one with the newest effective_from.
   */
  abstract contract(sale: {
    client_id: number;
    partner_id: number;
    segment: string | null;
    event_type: string;
  }): Contract | undefined;
  /**
   * Whether any partner of the client earns on this event type now: such custom events are claims.
   */
  abstract isCommissioned(clientId: number, eventType: string): boolean;
  abstract isClosed(period: PeriodOf): boolean;
}

/**
 * The view that apps take of the tables: complete for everything recorded before `asOf` (database
 * time).
 */
export interface Reference {
  readonly asOf: UnixMs;
  readonly at: (validAt: UnixMs, knownAt: UnixMs) => ReferenceAt;
  readonly clientIdOf: (slug: string) => number | undefined;
  /** A code belongs to one link of all clients, for good. */
  readonly linkIdOf: (code: string) => number | undefined;
  /** Of every client that there is or was, lowest first. */
  readonly clientIds: readonly number[];
}
export const reference: View<Reference> = { view: "reference" };

const groupBy = <Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string | number,
): ReadonlyMap<string | number, readonly Row[]> => {
  const groups = new Map<string | number, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group === undefined) groups.set(keyOf(row), [row]);
    else group.push(row);
  }
  return groups;
};
/**
 * One change may save a row of an id more than once, so recorded_at may be equal: then the higher
 * version is the newer one, then the later valid_from.
 * The order in which a store gives its rows therefore decides nothing.
 */
const newestFirst = <Row extends RowTimes>(rows: readonly Row[]): readonly Row[] =>
  [...rows].sort(
    (a, b) => b.recorded_at - a.recorded_at || (b.version ?? 0) - (a.version ?? 0) || b.valid_from - a.valid_from,
  );
const none: readonly never[] = [];

const leavesOf = (condition: Condition): number => {
  if ("all" in condition) return condition.all.reduce((sum, part) => sum + leavesOf(part), 0);
  if ("any" in condition) return condition.any.reduce((sum, part) => sum + leavesOf(part), 0);
  return "not" in condition ? leavesOf(condition.not) : 1;
};
/** Highest priority, then most leaves, then lowest id. */
export const inWinningOrder = (a: Rule, b: Rule): number =>
  b.priority - a.priority || leavesOf(b.when) - leavesOf(a.when) || a.rule_id - b.rule_id;
const isInForce = (
  row: { readonly effective_from: UnixMs | null; readonly effective_to: UnixMs | null },
  at: UnixMs,
): boolean =>
  (row.effective_from === null || row.effective_from <= at) && (row.effective_to === null || at < row.effective_to);

/**
 * Indexes the rows once; `at` is then a few map reads. Two ways in which time rules a row: things
 * (clients, partners, campaigns, links) are as their newest known row that was valid by then says;
 * terms (contracts, rules) are only their newest known row, in force or not, so that a term that
 * was shortened does not live on in its older row.
 */
export const referenceOf = (rows: ReferenceRows, asOf: UnixMs): Reference => {
  const things = <Row extends RowTimes>(all: readonly Row[], idOf: (row: Row) => number) => {
    const byId = groupBy(newestFirst(all), idOf);
    return (id: number, validAt: UnixMs, knownAt: UnixMs): Row | undefined => {
      for (const row of byId.get(id) ?? none) if (row.recorded_at <= knownAt && row.valid_from <= validAt) return row;
      return undefined;
    };
  };
  const terms = <Row extends RowTimes>(
    all: readonly Row[],
    idOf: (row: Row) => string | number,
    groupOf: (row: Row) => string | number,
  ) => {
    const byGroup = new Map(
      [...groupBy(all, groupOf)].map(([group, members]) => [group, [...groupBy(newestFirst(members), idOf).values()]]),
    );
    return (group: string | number, knownAt: UnixMs): readonly Row[] =>
      (byGroup.get(group) ?? none).flatMap((versions) => versions.find((row) => row.recorded_at <= knownAt) ?? []);
  };
  const clientAt = things(rows.clients, (row) => row.client_id);
  const partnerAt = things(rows.partners, (row) => row.partner_id);
  const campaignAt = things(rows.campaigns, (row) => row.campaign_id);
  const linkAt = things(rows.links, (row) => row.link_id);
  const rulesKnown = terms(
    rows.rules,
    (row) => row.rule_id,
    (row) => row.client_id,
  );
  const contractsKnown = terms(
    rows.contracts,
    (row) => row.contract_id,
    (row) => `${row.client_id}:${row.partner_id}:${row.event_type}`,
  );
  const contractsOfType = terms(
    rows.contracts,
    (row) => row.contract_id,
    (row) => `${row.client_id}:${row.event_type}`,
  );
  const nameOf = ({ client_id, partner_id, year, month }: PeriodOf): string =>
    `${client_id}:${partner_id}:${year}-${month}`;
  const periodsKnown = terms(rows.periods, nameOf, nameOf);
  const linkIdsByCode = new Map(rows.links.map((row) => [row.code, row.link_id]));
  const linkIds = new Map(rows.links.map((row) => [`${row.client_id}:${row.code}`, row.link_id]));
  /**
   * Everybody who ever worked for a client, lowest id first; whether they do at some time, their
   * row of then says.
   */
  const served = rows.partners.flatMap(({ partner_id, client_ids }) =>
    client_ids.map((client_id) => ({ client_id, partner_id })),
  );
  const partnerIds = new Map(
    [...groupBy(served, (row) => row.client_id)].map(([client, all]) => [
      client,
      [...new Set(all.map((row) => row.partner_id))].sort((a, b) => a - b),
    ]),
  );
  const idsByClient = groupBy(
    rows.campaigns.filter(({ patterns }) => patterns.length > 0),
    (row) => row.client_id,
  );
  const withPatterns = new Map(
    [...idsByClient].map(([client, all]) => [
      client,
      [...new Set(all.map((row) => row.campaign_id))].sort((a, b) => a - b),
    ]),
  );
  const linksByCampaign = groupBy(rows.links, (row) => row.campaign_id);
  const slugs = new Map(rows.clients.map((row) => [row.slug, row.client_id]));
  const ordered = new Map<number, { knownAt: UnixMs; rules: readonly Rule[] }>();

  /**
   * Sorting rules for every event would cost more than evaluating them: the order only changes when
   * a row is recorded.
   */
  const newestRule = new Map(
    [...groupBy(rows.rules, (row) => row.client_id)].map(([id, group]) => [
      id,
      Math.max(...group.map((row) => row.recorded_at)),
    ]),
  );
  const rulesInOrder = (clientId: number, knownAt: UnixMs): readonly Rule[] => {
    const newest = newestRule.get(clientId);
    if (newest === undefined) return none;
    const known = ordered.get(clientId);
    if (known !== undefined && known.knownAt >= newest && knownAt >= newest) return known.rules;
    const rules = [...rulesKnown(clientId, knownAt)].sort(inWinningOrder);
    ordered.set(clientId, { knownAt, rules });
    return rules;
  };

  class Moment extends ReferenceAt {
    readonly #validAt: UnixMs;
    readonly #knownAt: UnixMs;
    constructor(validAt: UnixMs, knownAt: UnixMs) {
      super();
      this.#validAt = validAt;
      this.#knownAt = knownAt;
    }
    client(id: number): Client | undefined {
      return clientAt(id, this.#validAt, this.#knownAt);
    }
    partner(id: number): Partner | undefined {
      return partnerAt(id, this.#validAt, this.#knownAt);
    }
    campaign(id: number): Campaign | undefined {
      return campaignAt(id, this.#validAt, this.#knownAt);
    }
    link(id: number): Link | undefined {
      return linkAt(id, this.#validAt, this.#knownAt);
    }
    linkByCode(clientId: number, code: string): Link | undefined {
      const id = linkIds.get(`${clientId}:${code}`);
      return id === undefined ? undefined : this.link(id);
    }
    partnersOf(clientId: number): readonly Partner[] {
      return (partnerIds.get(clientId) ?? none).flatMap((id) => {
        const partner = this.partner(id);
        return partner?.client_ids.includes(clientId) ? partner : [];
      });
    }
    campaignsWithPatterns(clientId: number): readonly Campaign[] {
      const ids = withPatterns.get(clientId);
      if (ids === undefined) return none;
      return ids.flatMap((id) => {
        const campaign = this.campaign(id);
        return campaign?.client_id === clientId && campaign.patterns.length > 0 ? campaign : [];
      });
    }
    partnersOfCampaign(campaignId: number): readonly number[] {
      const inUse = (linksByCampaign.get(campaignId) ?? none).flatMap(({ link_id }) => {
        const link = this.link(link_id);
        return link?.campaign_id === campaignId && link.status === "active" ? link.partner_id : [];
      });
      return [...new Set(inUse)].sort((a, b) => a - b);
    }
    rules(clientId: number): readonly Rule[] {
      const inOrder = rulesInOrder(clientId, this.#knownAt);
      if (inOrder.length === 0) return none;
      return inOrder.filter((rule) => rule.status === "active" && isInForce(rule, this.#validAt));
    }
    contract({ client_id, partner_id, segment, event_type }: Parameters<ReferenceAt["contract"]>[0]) {
      const inForce = contractsKnown(`${client_id}:${partner_id}:${contractTypeOf(event_type)}`, this.#knownAt)
        .filter((row) => row.status === "active" && isInForce(row, this.#validAt))
        .sort((a, b) => b.effective_from - a.effective_from || b.contract_id - a.contract_id);
      return (
        inForce.find((row) => row.segment !== null && row.segment === segment) ??
        inForce.find((row) => row.segment === null)
      );
    }
    isCommissioned(clientId: number, eventType: string): boolean {
      return contractsOfType(`${clientId}:${eventType}`, this.#knownAt).some(
        (row) => row.status === "active" && isInForce(row, this.#validAt),
      );
    }
    isClosed(period: PeriodOf): boolean {
      return periodsKnown(nameOf(period), this.#knownAt).some(({ status }) => status === "closed");
    }
  }

  return {
    asOf,
    clientIdOf: (slug) => slugs.get(slug),
    linkIdOf: (code) => linkIdsByCode.get(code),
    clientIds: [...new Set(rows.clients.map((row) => row.client_id))].sort((a, b) => a - b),
    at: (validAt, knownAt) => new Moment(validAt, knownAt),
  };
};
