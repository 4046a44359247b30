// The contracts of the figures of a campaign: in total, by day, and its orders.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, day, id, idText, ofId, range, segment } from "../fields.ts";
import { fullOrder, viewerOrder } from "./orders.ts";
import { change, clicks, conversions, money, ratio, soldBlock, soldOfClicks, stamp } from "./shapes.ts";

const query = z.strictObject(range);
const ofPartner = { partner_id: id, partner: z.string().nullable() };

export const readStats = contract({
  route: "GET /api/campaigns/:id/stats",
  readsFigures: true,
  summary: "What a campaign sold and earned, by partner, type of event and segment, and against the days before.",
  params: ofId,
  query,
  answers: z.object({
    ...stamp,
    basis: z.literal("sale_date"),
    totals: z.object({
      ...clicks,
      filtered_clicks: z.int(),
      repeat_clicks: z.int(),
      ...conversions,
      conversion_rate: ratio,
      approval_rate: ratio,
      ...soldOfClicks,
    }),
    by_partner: z.array(
      z.object({
        partner_id: id,
        name: z.string().nullable(),
        ...clicks,
        ...conversions,
        conversion_rate: ratio,
        ...soldOfClicks,
      }),
    ),
    by_event_type: z.array(z.object({ event_type: z.string(), ...conversions, ...soldBlock })),
    by_segment: z.array(z.object({ segment: z.string().nullable(), ...conversions, ...soldBlock })),
    previous: z.object({
      ...{ clicks: change, conversions: change, orders: change },
      ...{ gross: change, refunded: change, net: change, commission: change },
    }),
  }),
});

export const readDaily = contract({
  route: "GET /api/campaigns/:id/daily",
  readsFigures: true,
  summary: "The figures of each day of a campaign, days without any too, those to come left out.",
  params: ofId,
  query,
  answers: z.object({
    ...stamp,
    basis: z.literal("sale_date"),
    currency: z.string(),
    data: z.array(
      z.object({
        day,
        ...clicks,
        ...conversions,
        orders: z.int(),
        ...{ gross: money, refunded: money, commission: money },
        other_currencies: z.array(z.object({ currency: z.string(), gross: money, refunded: money, commission: money })),
      }),
    ),
  }),
});

export const listCampaignOrders = listContract({
  route: "GET /api/campaigns/:id/orders",
  readsFigures: true,
  summary: "Lines of orders that a campaign was credited for.",
  params: ofId,
  filters: {
    ...range,
    partner_id: idText.optional(),
    status: choice(["credited", "reversed"]).optional(),
    segment: segment.optional(),
  },
  rows: { admin: fullOrder.extend(ofPartner), viewer: viewerOrder.extend(ofPartner) },
  sorts: ["-occurred_at", "occurred_at", "-value", "value"],
  csv: {
    file: "campaign-orders",
    columns:
      "order_id day occurred_at partner segment product_id quantity value refunded currency status " +
      "commission commission_status",
  },
});
