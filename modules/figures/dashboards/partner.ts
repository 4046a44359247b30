// The dashboard of a partner: its sales and earnings, its best links, and why its earnings are not
// paid yet.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { Days } from "../../base/days.ts";
import { linkAddress, type PublicHosts } from "../../base/public-hosts.ts";
import type { ScopedRead } from "../../base/work.ts";
import { linksIn } from "../reads/best-links.ts";
import { blockOf, CURRENT, deltasOf, type FiguresByPlace, ledgered, placeOf } from "../reads/blocks.ts";
import { type ClickFigures, clickFigures } from "../reads/click-figures.ts";
import { bandsOf } from "../reads/fraud-figures.ts";
import { clientsOfFigures } from "../reads/names.ts";
import { type OwedAmounts, type Payout, whyNotPaid } from "../reads/partner-money.ts";
import { daysOf } from "../reads/periods.ts";
import { approvalRate, type CommissionState, commissionStates, type Kind, soldFigures } from "../reads/sold-figures.ts";
import { formerMonthLocks } from "../reads/stamp.ts";
import { FIGURES_MS, orAway } from "../reads/time-limit.ts";
import { type FigureStores, type Frame, frameOf, isKept, stampFor } from "./frame.ts";

export interface PartnerQuery extends Days {
  readonly partner_id: number;
  /** Undefined for the currency of the one client, or MXN. */
  readonly currency?: string | undefined;
  /** The partner reads its own dashboard: sales and fraud are not even read for it. */
  readonly isOwn: boolean;
}
/** The partner as the catalog has it, when the dashboard is read. */
export interface DashboardPartner {
  /** Clients whose figures are shown; at least one. */
  readonly clients: readonly number[];
  readonly payout: Payout;
  readonly balance: OwedAmounts;
}
interface DashboardPorts extends FigureStores {
  readonly hosts: Pick<PublicHosts, "tracking">;
}
interface Sums {
  readonly sold: FiguresByPlace;
  readonly clicks: ClickFigures;
  readonly currency: string;
}

const TOP_LINKS = 10;
type TopLinks = Pick<PartnerQuery, "partner_id"> & Pick<DashboardPorts, "hosts">;

/**
 * `partnerIn` reads the partner in the same snapshot as its figures. Throws Unavailable, and
 * RefusalError as `spanOf` and `partnerIn` do.
 */
export const partnerDashboard = async (
  stores: DashboardPorts,
  read: ScopedRead,
  query: PartnerQuery,
  partnerIn: (...snapshot: Parameters<Parameters<ScopedRead>[0]>) => Promise<DashboardPartner>,
) => {
  const frame = await frameOf(stores, query);
  const stored = await read(async (tx, scope) => storedOf(tx, await partnerIn(tx, scope), query, frame));
  const { clients, currency, states } = stored;
  const scope = { clients, partner_id: query.partner_id, periods: frame.periods };
  const clicksAsked = { ...scope, by: ["day", "campaign_id"], mostMs: FIGURES_MS } as const;
  const [clicks, stamp, fraud] = await Promise.all([
    orAway(clickFigures(stores.clickhouse, clicksAsked)),
    stampFor(stores, frame, clients),
    query.isOwn ? undefined : orAway(bandsOf(stores.clickhouse, { ...scope, span: frame.periods.current })),
  ]);
  const sums = { sold: ledgered(stored.figures), clicks, currency };
  return {
    ...stamp,
    basis: "sale_date",
    ...blocksOf(sums, frame),
    totals: { ...blockOf(sums.sold, CURRENT, currency, clicks.total.current), approval_rate: approvalRate(states) },
    commission_by_status: byStatus(states, currency),
    top_links: await read((tx) => topLinks(tx, { ...query, hosts: stores.hosts }, sums)),
    previous: deltasOf(sums.sold, currency, clicks.total, isKept(frame.periods, stored.months, frame.now)),
    balance: stored.balance,
    next_payment: null,
    why_not_paid: stored.why,
    ...(fraud && { fraud }),
  };
};

/** Reads from Postgres all that one snapshot gives. */
const storedOf = async (
  tx: PoolClient,
  { clients, payout, balance }: DashboardPartner,
  { partner_id, currency, isOwn }: PartnerQuery,
  { periods, now }: Frame,
) => {
  const known = await clientsOfFigures(tx, clients);
  const scope = { clients, partner_id, periods };
  const kinds: readonly Kind[] = isOwn ? ["credited", "earned"] : ["sold", "credited", "earned"];
  const debts = { payout, balance, provisionalUntil: formerMonthLocks(now) };
  return {
    clients,
    balance,
    currency: currency ?? (known.length === 1 ? known[0]!.currency : "MXN"),
    months: Math.min(...known.map(({ retention_months }) => retention_months)),
    figures: await soldFigures(tx, { ...scope, by: ["day", "campaign_id", "event_type", "segment"], kinds }),
    states: await commissionStates(tx, { ...scope, by: [], kinds: [] }),
    why: await whyNotPaid(tx, { partner_id, clients, now, span: periods.current }, debts),
  };
};

const blocksOf = ({ sold, clicks, currency }: Sums, { periods, now }: Frame) => {
  const listed = (by: "segment" | "event_type") =>
    sold.values(by).map((value) => ({ [by]: value, ...blockOf(sold, placeOf(by, value), currency) }));
  return {
    series: daysOf(periods.current, now).map((day) => ({
      day,
      ...blockOf(sold, placeOf("day", day), currency, clicks.by("day", day)),
    })),
    by_segment: listed("segment"),
    by_event_type: listed("event_type"),
  };
};

/** The links that earned most; of equal earnings those with more clicks come first. */
const topLinks = async (tx: PoolClient, { partner_id, hosts }: TopLinks, { sold, clicks, currency }: Sums) => {
  const campaigns = new Set([...sold.values("campaign_id"), ...clicks.values("campaign_id")]);
  const ids = [...campaigns].flatMap((id) => (id === null || id === "0" ? [] : [Number(id)]));
  const ranked = (await linksIn(tx, partner_id, ids)).map((link) => {
    const id = String(link.campaign_id);
    const place = placeOf("campaign_id", id);
    const block = blockOf(sold, place, currency, clicks.by("campaign_id", id));
    const earned = sold.of("earned", place, currency).amount;
    return { earned, clicks: BigInt(block.clicks), shown: { ...link, url: linkAddress(hosts, link.code), ...block } };
  });
  ranked.sort((a, b) => compare(b.earned, a.earned) || compare(b.clicks, a.clicks));
  return ranked.slice(0, TOP_LINKS).map(({ shown }) => shown);
};

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

/** Commissions in one currency by their state; why one is reviewed is not said. */
const byStatus = (states: readonly CommissionState[], currency: string) => {
  const sum = (status: string): string =>
    toDecimal(
      states.reduce((all, one) => (one.status === status && one.currency === currency ? all + one.amount : all), 0n),
      currency,
    );
  return {
    pending: sum("pending"),
    under_review: sum("on_hold"),
    approved: sum("approved"),
    in_payment: sum("in_payment"),
    paid: sum("paid"),
    reversed: sum("reversed"),
    currency,
  };
};
