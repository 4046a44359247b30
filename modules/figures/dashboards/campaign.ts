// The figures of a campaign: in total, by partner, event type and segment, and by day.
import type { Days } from "../../base/days.ts";
import { clientsAsked, type ScopedRead } from "../../base/work.ts";
import { blockOf, CURRENT, deltasOf, type FiguresByPlace, ledgered, placeOf } from "../reads/blocks.ts";
import { type ClickFigures, clickFigures } from "../reads/click-figures.ts";
import { clientsOfFigures, partnerNames } from "../reads/names.ts";
import { daysOf } from "../reads/periods.ts";
import { approvalRate, commissionStates, type SplitBy, soldFigures } from "../reads/sold-figures.ts";
import { FIGURES_MS, orAway } from "../reads/time-limit.ts";
import { type FigureStores, type Frame, frameOf, isKept, stampFor } from "./frame.ts";

export interface CampaignQuery extends Days {
  readonly campaign_id: number;
  readonly client_id: number;
}
interface CampaignFigures {
  readonly sold: FiguresByPlace;
  readonly clicks: ClickFigures;
  readonly stamp: object;
  readonly currency: string;
  readonly names: ReadonlyMap<number, string>;
  readonly approval: number | null;
  readonly isKept: boolean;
  readonly frame: Frame;
}

/** Throws Unavailable, and RefusalError as `spanOf` and `clientsAsked` do. */
export const campaignStats = async (stores: FigureStores, read: ScopedRead, query: CampaignQuery) => {
  const figures = await figuresOf(stores, read, query, ["partner_id", "event_type", "segment"]);
  const { sold, clicks, currency } = figures;
  const blockAt = (by: SplitBy, value: string | null) => blockOf(sold, placeOf(by, value), currency);
  return {
    ...figures.stamp,
    basis: "sale_date",
    totals: { ...blockOf(sold, CURRENT, currency, clicks.total.current), approval_rate: figures.approval },
    by_partner: partnerBlocks(figures),
    by_event_type: sold.values("event_type").map((value) => ({ event_type: value, ...blockAt("event_type", value) })),
    by_segment: sold.values("segment").map((value) => ({ segment: value, ...blockAt("segment", value) })),
    previous: deltasOf(sold, currency, clicks.total, figures.isKept),
  };
};

/** Clicks and sales without a partner are in the totals alone. */
const partnerBlocks = ({ sold, clicks, currency, names }: CampaignFigures) => {
  const partners = new Set([...sold.values("partner_id"), ...clicks.values("partner_id")]);
  partners.delete("0");
  return [...partners]
    .map((value) => {
      const partner_id = Number(value);
      const block = blockOf(sold, placeOf("partner_id", value), currency, clicks.by("partner_id", value ?? ""));
      return { partner_id, name: names.get(partner_id) ?? null, ...block };
    })
    .sort((a, b) => a.partner_id - b.partner_id);
};

/**
 * Every day of the span up to today. Throws Unavailable, and RefusalError as `spanOf` and
 * `clientsAsked` do.
 */
export const campaignDays = async (stores: FigureStores, read: ScopedRead, query: CampaignQuery) => {
  const { sold, clicks, stamp, currency, frame } = await figuresOf(stores, read, query, ["day"]);
  const data = daysOf(frame.periods.current, frame.now).map((day) => ({
    day,
    ...blockOf(sold, placeOf("day", day), currency, clicks.by("day", day)),
  }));
  return { ...stamp, basis: "sale_date", currency, data };
};

const figuresOf = async (
  stores: FigureStores,
  read: ScopedRead,
  { campaign_id, client_id, ...days }: CampaignQuery,
  by: readonly SplitBy[],
): Promise<CampaignFigures> => {
  const frame = await frameOf(stores, days);
  const scope = { clients: [client_id], campaign_id, periods: frame.periods };
  const stored = await read(async (tx, caller) => {
    const clients = clientsAsked(caller, client_id);
    return {
      sold: ledgered(await soldFigures(tx, { ...scope, by, kinds: ["sold", "credited", "earned"] })),
      client: (await clientsOfFigures(tx, clients))[0]!,
      states: await commissionStates(tx, { ...scope, by: [], kinds: [] }),
    };
  });
  const groups = by.filter((name) => name === "day" || name === "partner_id");
  const clicksAsked = { ...scope, by: groups, mostMs: FIGURES_MS };
  const [clicks, stamp] = await Promise.all([
    orAway(clickFigures(stores.clickhouse, clicksAsked)),
    stampFor(stores, frame, [client_id]),
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
