// The routes of what a partner earned. A partner's own statement never names what was sold.

import type { PoolClient } from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import type { Scope } from "../../../../modules/base/work.ts";
import { readPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import { paymentRows } from "../../../../modules/catalog/partners/payments.ts";
import { linksIn } from "../../../../modules/figures/reads/best-links.ts";
import { blockOf, CURRENT, deltasOf, ledgered, placeOf } from "../../../../modules/figures/reads/blocks.ts";
import { clickFigures, clientsTrackingClicks } from "../../../../modules/figures/reads/click-figures.ts";
import { bandsOf } from "../../../../modules/figures/reads/fraud-figures.ts";
import { clientsOfFigures } from "../../../../modules/figures/reads/names.ts";
import { orderRows, shownOrders, shownToPartner, withFraud } from "../../../../modules/figures/reads/order-rows.ts";
import { whyNotPaid } from "../../../../modules/figures/reads/partner-money.ts";
import { daysOf } from "../../../../modules/figures/reads/periods.ts";
import {
  approvalRate,
  type CommissionState,
  commissionStates,
  type Kind,
  type SplitBy,
  soldFigures,
} from "../../../../modules/figures/reads/sold-figures.ts";
import * as contracts from "../../contract/figures/partner-figures.ts";
import { notFound } from "../../request/accept.ts";
import { FIGURES_MS, type Frame, frameOf, isKept, orAway, receiptKeyOf, stampFor } from "../../request/figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { formerMonthLocks, spanOf } from "../../request/range.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "positions" | "keyring">;
const BY: readonly SplitBy[] = ["day", "campaign_id", "event_type", "segment"];
const TOP = 10;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readPartnerDashboard, async (ask) => {
    const { params, query, role } = ask;
    await checkFilter(ask, query.client_id);
    const frame = await frameOf(ports, query);
    const kinds: readonly Kind[] = role === "partner" ? ["credited", "earned"] : ["sold", "credited", "earned"];
    const stored = await ask.read((tx, scope) => storedOf(tx, scope, { ask, frame, kinds }));
    const { clients, currency, tracking } = stored;
    const asked = { clients, partner_id: params.id, periods: frame.periods };
    const [clicks, stamp, bands] = await Promise.all([
      orAway(clickFigures(ports.clickhouse, { ...asked, by: ["day", "campaign_id"], tracking, mostMs: FIGURES_MS })),
      stampFor(ports, frame, clients),
      role === "partner" ? undefined : orAway(bandsOf(ports.clickhouse, { ...asked, span: frame.periods.current })),
    ]);
    const sold = ledgered(stored.figures);
    const listed = (by: SplitBy) =>
      sold.values(by).map((value) => ({ [by]: value, ...blockOf(sold, placeOf(by, value), currency) }));
    const campaigns = new Set([...sold.values("campaign_id"), ...clicks.values("campaign_id")]);
    const links = await ask.read((tx) =>
      linksIn(
        tx,
        params.id,
        [...campaigns].flatMap((id) => (id === null || id === "0" ? [] : [Number(id)])),
      ),
    );
    const top = links.map((link) => {
      const place = String(link.campaign_id);
      const block = blockOf(sold, placeOf("campaign_id", place), currency, clicks.by("campaign_id", place));
      const rank = [sold.of("earned", placeOf("campaign_id", place), currency).amount, BigInt(block.clicks)] as const;
      return { rank, shown: { ...link, url: `/c/${link.code}`, ...block } };
    });
    top.sort((a, b) => compare(b.rank[0], a.rank[0]) || compare(b.rank[1], a.rank[1]));
    return {
      body: {
        ...stamp,
        basis: "sale_date",
        totals: {
          ...blockOf(sold, CURRENT, currency, clicks.total.current),
          approval_rate: approvalRate(stored.states),
        },
        commission_by_status: byStatus(stored.states, currency),
        series: daysOf(frame.periods.current, frame.now).map((day) => ({
          day,
          ...blockOf(sold, placeOf("day", day), currency, clicks.by("day", day)),
        })),
        by_segment: listed("segment"),
        by_event_type: listed("event_type"),
        top_links: top.slice(0, TOP).map(({ shown }) => shown),
        previous: deltasOf(sold, currency, clicks.total, isKept(frame.periods, stored.months, frame.now)),
        balance: stored.balance,
        next_payment: null,
        why_not_paid: stored.why,
        ...(bands && { fraud: bands }),
      },
    };
  }),

  route(contracts.listPartnerOrders, async (ask) => {
    const { params, query, role } = ask;
    await checkFilter(ask, query.client_id);
    await ask.read((tx, scope) => visible(tx, scope, ask));
    const { client_id, campaign_id, status, segment, event_type, commission_status } = query;
    const rows = orderRows({
      ...{ client_id, campaign_id, status, segment, event_type },
      span: spanOf(query, Date.now()),
      receiptKey: receiptKeyOf(ports),
      partner_id: params.id,
      commission_status: commission_status === "under_review" ? "on_hold" : commission_status,
    });
    return role === "partner"
      ? ask.list(rows, async (found) => shownToPartner(found))
      : ask.list(rows, async (found) => orAway(withFraud(ports.clickhouse, shownOrders(found))));
  }),

  route(contracts.listPartnerPayments, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    await ask.read((tx, scope) => visible(tx, scope, ask));
    return ask.list(paymentRows(ask.params.id));
  }),
];

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

/** Partners of one client see rows of each other by their tenant alone. Throws Problem 404. */
const visible = async (
  tx: PoolClient,
  { clients }: Scope,
  { user, params }: Pick<Ask, "user"> & { readonly params: { readonly id: number } },
  names: readonly string[] = [],
) => {
  if (user.role === "partner" && user.partner_id !== params.id) throw notFound();
  const found = await readPartner(tx, params.id, clients, names);
  if (found === undefined) throw notFound();
  return found;
};

type DashboardAsk = Ask<typeof contracts.readPartnerDashboard>;

const storedOf = async (
  tx: PoolClient,
  scope: Scope,
  { ask, frame, kinds }: { readonly ask: DashboardAsk; readonly frame: Frame; readonly kinds: readonly Kind[] },
) => {
  const { params, query } = ask;
  const { state, shown } = await visible(tx, scope, ask, ["payout", "balance"]);
  const own = state.known_to.filter((id) => scope.clients.includes(id));
  const clients = query.client_id === undefined ? own : own.filter((id) => id === query.client_id);
  if (clients.length === 0) throw notFound();
  const known = await clientsOfFigures(tx, clients);
  const currency = query.currency ?? (known.length === 1 ? known[0]!.currency : "MXN");
  const asked = { clients, partner_id: params.id, periods: frame.periods };
  const { now, periods } = frame;
  return {
    clients,
    currency,
    months: Math.min(...known.map(({ retention_months }) => retention_months)),
    figures: await soldFigures(tx, { ...asked, by: BY, kinds }),
    states: await commissionStates(tx, { ...asked, by: [], kinds: [] }),
    tracking: await clientsTrackingClicks(tx, clients),
    balance: shown.balance,
    why: await whyNotPaid(
      tx,
      { partner_id: params.id, clients, now, span: periods.current },
      { payout: shown.payout, balance: shown.balance, provisionalUntil: formerMonthLocks(now) },
    ),
  };
};

/** Money of commissions in one currency by the state they are in; a review is not explained. */
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
