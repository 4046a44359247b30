// The shape of a line of an order as partners and campaigns list it.
import { z } from "zod";
import { choice, day, decimal, id, time } from "../fields.ts";
import { money } from "./shapes.ts";

/** Filters take every status of commissions, also those that no commission has yet. */
export const commissionStatuses = [
  "pending",
  "on_hold",
  "under_review",
  "approved",
  "in_payment",
  "paid",
  "rejected",
  "reversed",
] as const;

const statuses = {
  /** A partner sees `under_review` for `on_hold`, without the reason. */
  partner: choice(["pending", "under_review", "reversed"]),
  others: choice(["pending", "on_hold", "reversed"]),
};

const shared = {
  id: z.string(),
  client_id: id,
  order_id: z.string().nullable().describe("as the sender wrote it"),
  day,
  occurred_at: time,
  event_type: z.string(),
  segment: z.string().nullable(),
  campaign_id: id.nullable(),
  campaign: z.string().nullable(),
  link_code: z.string().nullable(),
  status: choice(["credited", "reversed"]),
  refund: choice(["none", "partial", "full"]),
  commission: money.nullable().describe("null: not computed yet"),
  currency: z.string(),
  payable_from: time.nullable(),
  reason: z.string().nullable(),
  receipt_hash: z.string().nullable().describe("of the receipt of the commission, for a dispute"),
};

/** The shape for a partner has no field about the goods. */
export const partnerOrder = z.object({ ...shared, commission_status: statuses.partner.nullable() });

const fraudWith = (reason: z.ZodType) =>
  z.object({
    score: z.int().nullable().describe("null: its event is not kept any more"),
    band: choice(["ok", "review", "reject"]),
    reasons: z.array(reason),
  });
const reason = z.object({ code: z.string(), weight: z.int() });

export const fullOrder = z.object({
  ...shared,
  commission_status: statuses.others.nullable(),
  product_id: z.string().nullable(),
  quantity: z.int().nullable(),
  value: money,
  refunded: money,
  rate: decimal.nullable().describe("of a contract by percent"),
  contract_version: z.int().nullable(),
  fraud: fraudWith(reason.extend({ evidence: z.string() })),
});

/** The shape for a viewer has no evidence, which contains addresses of people. */
export const viewerOrder = fullOrder.extend({ fraud: fraudWith(reason) });
