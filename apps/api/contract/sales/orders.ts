// The contracts of orders and of sales without a partner.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { id, idText, money, range, time } from "../fields.ts";
import { decision, decisionMasked } from "./decision.ts";

const ratio = z.number().nullable().describe("4 decimals; null when there is nothing to divide by");

const sale = z.object({
  id: z.string(),
  client_id: id,
  order_id: z.string().nullable(),
  event_id: z.string(),
  day: z.string().describe("of America/Mexico_City"),
  occurred_at: time,
  value: money,
  refunded: money,
  currency: z.string(),
  segment: z.string().nullable(),
  product_id: z.string().nullable(),
  reason: z.string().nullable(),
  source: z.string().nullable().describe("null while it is not known"),
  best_candidate: z
    .object({ partner_id: id, method: z.string(), why_lost: z.string() })
    .nullable()
    .describe("the first one that was considered and names a partner"),
});

export const listUnattributed = listContract({
  route: "GET /api/sales/unattributed",
  readsFigures: true,
  summary: "Sale lines without a credited partner, of the last 30 days unless asked for, with their sums.",
  filters: {
    client_id: idText.optional(),
    reason: z.string().min(1).max(64).optional(),
    segment: z.string().min(1).max(64).optional(),
    min_value: z
      .string()
      .regex(/^\d{1,13}(?:\.\d{1,4})?$/, "give an amount, like 100.00")
      .optional()
      .describe("in the currency of each line"),
    ...range,
  },
  rows: sale,
  sorts: ["-occurred_at", "occurred_at", "-value", "value"],
  more: {
    summary: z.object({
      count: z.int(),
      share: ratio,
      value: money,
      revenue_share: ratio,
      currency: z.string(),
      by_reason: z.array(z.object({ reason: z.string().nullable(), count: z.int(), value: money })),
      other_currencies: z.array(z.object({ currency: z.string(), value: money, revenue_share: ratio })),
    }),
  },
  csv: {
    file: "unattributed",
    columns: "order_id event_id day occurred_at value refunded currency segment product_id reason source client_id",
  },
});

const commission = z.object({
  id: z.string(),
  amount: money,
  currency: z.string(),
  status: z.string(),
  payable_from: time.nullable(),
  period: z.string(),
});
const line = z.object({
  event_id: z.string(),
  version: z.int(),
  t: z.string().describe("the type of its event, or the name of a custom one"),
  product_id: z.string().nullable(),
  segment: z.string().nullable(),
  quantity: z.int().nullable(),
  currency: z.string(),
  value: money,
  refunded: money,
  status: z.enum(["credited", "unattributed"]),
  partner_id: id.nullable(),
  campaign_id: id.nullable(),
  credit: z.object({
    method: z.string().nullable(),
    click_id: z.string().nullable(),
    reason: z.string().nullable(),
    review: z.string().nullable().describe("why its commission is held"),
  }),
  commission: commission.nullable(),
  fraud: z.object({ band: z.string(), score: z.int().nullable() }),
});
const sums = z.object({
  ...{ currency: z.string(), gross: money, refunded: money, net: money },
  disputed_total: z.boolean().describe("its total and its lines are of another worth, and the larger of both counts"),
});
const order = z.object({
  id: z.string(),
  client_id: id,
  order_id: z.string(),
  placed_at: time,
  ...sums.shape,
  other_currencies: z.array(sums),
  lines: z.array(line),
  copies: z.array(
    z.object({
      event_id: z.string(),
      source: z.string().nullable(),
      received_at: time.nullable(),
      merged_into: z.string(),
    }),
  ),
  refunds: z.array(
    z.object({
      event_id: z.string(),
      occurred_at: time,
      product_id: z.string().nullable(),
      value: money.nullable().describe("null: all that was left"),
      currency: z.string(),
      merged_into: z.string().nullable().describe("the refund that it is a copy of; it takes nothing"),
    }),
  ),
  decisions: z.array(decision),
  explain: z.array(z.string()),
});

export const readOrder = contract({
  route: "GET /api/orders/:id/details",
  summary: "One order: its lines with credit and commission, its copies, refunds and decisions.",
  params: z.strictObject({ id: z.string().min(1).max(720).describe("of a list (ord_...), or the shop's own") }),
  query: z.strictObject({ client_id: idText.optional().describe("needed where two clients have that order") }),
  answers: { admin: order, viewer: order.extend({ decisions: z.array(decisionMasked) }) },
});
