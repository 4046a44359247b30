// The routes of what a campaign sold.

import { campaignState } from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import {
  blockOf,
  CURRENT,
  deltasOf,
  type FiguresByPlace,
  ledgered,
  placeOf,
} from "../../../../modules/figures/reads/blocks.ts";
import {
  type ClickFigures,
  clickFigures,
  clientsTrackingClicks,
} from "../../../../modules/figures/reads/click-figures.ts";
import { clientsOfFigures, partnerNames } from "../../../../modules/figures/reads/names.ts";
import { orderRows, shownOrders, withFraud } from "../../../../modules/figures/reads/order-rows.ts";
import { daysOf } from "../../../../modules/figures/reads/periods.ts";
import {
  approvalRate,
  commissionStates,
  type SplitBy,
  soldFigures,
} from "../../../../modules/figures/reads/sold-figures.ts";
import * as contracts from "../../contract/figures/campaign-figures.ts";
import { notFound } from "../../request/accept.ts";
import { FIGURES_MS, type Frame, frameOf, isKept, orAway, receiptKeyOf, stampFor } from "../../request/figures.ts";
import { spanOf } from "../../request/range.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "positions" | "keyring">;
type ReadAsk = Pick<Ask, "read">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readStats, async ({ read, params, query }) => {
    const { clicks, stamp, ...known } = await figuresOf(ports, { read }, params.id, query, [
      "partner_id",
      "event_type",
      "segment",
    ]);
    const { sold, currency, names } = known;
    const blockAt = (by: SplitBy, value: string | null, ofClicks = false) =>
      blockOf(sold, placeOf(by, value), currency, ofClicks ? clicks.by("partner_id", value ?? "") : undefined);
    // Clicks without a partner are in the totals alone.
    const partners = new Set([...sold.values("partner_id"), ...clicks.values("partner_id")]);
    partners.delete("0");
    return {
      body: {
        ...stamp,
        basis: "sale_date",
        totals: { ...blockOf(sold, CURRENT, currency, clicks.total.current), approval_rate: known.approval },
        by_partner: [...partners]
          .map((value) => {
            const partner_id = Number(value);
            return { partner_id, name: names.get(partner_id) ?? null, ...blockAt("partner_id", value, true) };
          })
          .sort((a, b) => a.partner_id - b.partner_id),
        by_event_type: sold
          .values("event_type")
          .map((value) => ({ event_type: value, ...blockAt("event_type", value) })),
        by_segment: sold.values("segment").map((value) => ({ segment: value, ...blockAt("segment", value) })),
        previous: deltasOf(sold, currency, clicks.total, known.isKept),
      },
    };
  }),

  route(contracts.readDaily, async ({ read, params, query }) => {
    const { sold, clicks, stamp, currency, frame } = await figuresOf(ports, { read }, params.id, query, ["day"]);
    const data = daysOf(frame.periods.current, frame.now).map((day) => ({
      day,
      ...blockOf(sold, placeOf("day", day), currency, clicks.by("day", day)),
    }));
    return { body: { ...stamp, basis: "sale_date", currency, data } };
  }),

  route(contracts.listCampaignOrders, async ({ read, list, params, query }) => {
    await campaignOf({ read }, params.id);
    const { partner_id, status, segment } = query;
    const filter = { campaign_id: params.id, partner_id, status, segment };
    const rows = orderRows({ ...filter, span: spanOf(query, Date.now()), receiptKey: receiptKeyOf(ports) });
    return list(rows, async (found) => orAway(withFraud(ports.clickhouse, shownOrders(found))));
  }),
];

const campaignOf = async ({ read }: ReadAsk, id: number) => {
  const found = await read((tx, { clients }) => campaignState(tx, id, clients));
  if (found === undefined) throw notFound();
  return found;
};

interface Figures {
  readonly sold: FiguresByPlace;
  readonly clicks: ClickFigures;
  readonly stamp: object;
  readonly currency: string;
  readonly names: ReadonlyMap<number, string>;
  readonly approval: number | null;
  readonly isKept: boolean;
  readonly frame: Frame;
}

const figuresOf = async (
  ports: Ports,
  { read }: ReadAsk,
  id: number,
  query: { readonly from?: string | undefined; readonly to?: string | undefined },
  by: readonly SplitBy[],
): Promise<Figures> => {
  const { client_id } = await campaignOf({ read }, id);
  const frame = await frameOf(ports, query);
  const scope = { clients: [client_id], campaign_id: id, periods: frame.periods };
  const stored = await read(async (tx) => {
    const figures = await soldFigures(tx, { ...scope, by, kinds: ["sold", "credited", "earned"] });
    const [client] = await clientsOfFigures(tx, [client_id]);
    return {
      sold: ledgered(figures),
      states: await commissionStates(tx, { ...scope, by: [], kinds: [] }),
      tracking: await clientsTrackingClicks(tx, [client_id]),
      client: client!,
    };
  });
  const groups = by.filter((name) => name === "day" || name === "partner_id");
  const asked = { ...scope, by: groups, tracking: stored.tracking, mostMs: FIGURES_MS };
  const [clicks, stamp] = await Promise.all([
    orAway(clickFigures(ports.clickhouse, asked)),
    stampFor(ports, frame, [client_id]),
  ]);
  const partners = [...stored.sold.values("partner_id"), ...clicks.values("partner_id")].map(Number);
  return {
    sold: stored.sold,
    clicks,
    stamp,
    currency: stored.client.currency,
    names: await read((tx) => partnerNames(tx, partners)),
    approval: approvalRate(stored.states),
    isKept: isKept(frame.periods, stored.client.retention_months, frame.now),
    frame,
  };
};
