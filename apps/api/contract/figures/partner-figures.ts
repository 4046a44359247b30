// The contracts of the earnings of a partner: its dashboard, its orders and its payments. The
// shapes for the partner itself have no field about the goods.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, currency, day, eventType, id, idText, ofId, range, segment, time } from "../fields.ts";
import { commissionStatuses, fullOrder, partnerOrder, viewerOrder } from "./orders.ts";
import {
  change,
  clicks,
  conversions,
  earnedBlock,
  earnedOfClicks,
  money,
  ratio,
  soldBlock,
  soldOfClicks,
  stamp,
} from "./shapes.ts";

const balance = { payable: money, held: money, carried: money, currency: z.string() };
const states = {
  pending: money,
  under_review: money,
  approved: money,
  in_payment: money,
  paid: money,
  reversed: money,
};
const rates = { conversion_rate: ratio, approval_rate: ratio };

/** The fields of both shapes; `totals`, blocks and changes differ by reader. */
const dashboard = <Totals extends z.ZodRawShape, Block extends z.ZodRawShape, Change extends z.ZodRawShape>(of: {
  readonly totals: Totals;
  readonly block: Block;
  readonly change: Change;
}) =>
  z.object({
    ...stamp,
    basis: z.literal("sale_date"),
    totals: z.object({ ...clicks, ...conversions, ...rates, ...of.totals }),
    commission_by_status: z.object({ ...states, currency: z.string() }),
    series: z.array(z.object({ day, ...clicks, ...conversions, commission: money })),
    by_segment: z.array(z.object({ segment: z.string().nullable(), ...conversions, ...of.block })),
    by_event_type: z.array(z.object({ event_type: z.string(), ...conversions, ...of.block })),
    top_links: z.array(
      z.object({
        campaign_id: id,
        campaign: z.string(),
        code: z.string(),
        url: z.string().describe("on the host of links; a path without TRACKING_URL"),
        ...clicks,
        ...conversions,
        ...of.block,
      }),
    ),
    previous: z.object({ clicks: change, conversions: change, commission: change, ...of.change }),
    balance: z.object({ ...balance, other_currencies: z.array(z.object(balance)) }),
    next_payment: z
      .object({ year: z.int(), month: z.int(), amount: money, status: z.string() })
      .nullable()
      .describe("null: there is none yet"),
    why_not_paid: z.array(
      z.object({
        code: choice(["threshold", "hold", "carried_debt", "review", "month_provisional", "no_contract"]),
        sentence: z.string(),
        amount: money.optional(),
        currency: z.string().optional(),
        until: time.optional(),
      }),
    ),
  });

export const readPartnerDashboard = contract({
  route: "GET /api/partners/:id/dashboard",
  readsFigures: true,
  summary: "What a partner brought and earned; zeros where there is nothing.",
  params: ofId,
  query: z.strictObject({ client_id: idText.optional(), currency: currency.optional(), ...range }),
  answers: {
    admin: dashboard({
      totals: soldOfClicks,
      block: soldBlock,
      change: { orders: change, gross: change, refunded: change, net: change },
    }).extend({ fraud: z.object({ ok: z.int(), review: z.int(), reject: z.int() }).describe("events by band") }),
    partner: dashboard({ totals: earnedOfClicks, block: earnedBlock, change: {} }),
  },
});

export const listPartnerOrders = listContract({
  route: "GET /api/partners/:id/orders",
  readsFigures: true,
  summary: "Lines of orders that a partner was credited for.",
  params: ofId,
  filters: {
    client_id: idText.optional(),
    ...range,
    status: choice(["credited", "reversed"]).optional(),
    commission_status: choice(commissionStatuses).optional(),
    segment: segment.optional(),
    campaign_id: idText.optional(),
    event_type: eventType.optional(),
  },
  rows: { admin: fullOrder, viewer: viewerOrder, partner: partnerOrder },
  sorts: ["-occurred_at", "occurred_at", "-commission", "commission"],
  csv: {
    file: "partner-orders",
    columns:
      "order_id day occurred_at event_type segment campaign link_code status refund commission currency " +
      "commission_status payable_from product_id quantity value refunded rate",
  },
});

const payment = z.object({
  id,
  client_id: id,
  client: z.string(),
  year: z.int(),
  month: z.int(),
  amount: money,
  currency: z.string(),
  status: z.string(),
  paid_at: time.nullable(),
  reason: z.string().nullable(),
  lines: z.array(z.object({ kind: z.string(), count: z.int(), amount: money })),
});

export const listPartnerPayments = listContract({
  route: "GET /api/partners/:id/payments",
  readsFigures: true,
  summary: "Payments of a partner; it sees those that are approved.",
  params: ofId,
  filters: {
    client_id: idText.optional(),
    year: z
      .string()
      .regex(/^2[01]\d\d$/, "give a year from 2000 on")
      .optional(),
    month: z
      .string()
      .regex(/^([1-9]|1[0-2])$/, "give a month from 1 to 12")
      .optional(),
    status: z.string().max(20).optional(),
  },
  rows: {
    admin: payment.extend({
      evidence: z.array(z.object({ id: z.string(), name: z.string(), uploaded_at: z.string() })),
    }),
    partner: payment,
  },
  sorts: ["-period", "period"],
  csv: {
    file: "payments",
    columns: "year month client amount currency status paid_at",
  },
});
