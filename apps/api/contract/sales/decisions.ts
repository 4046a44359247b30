// The contracts of decisions about sales: giving and moving credit, ending reviews, refunds.
import { z } from "zod";
import { REFUND_REASONS } from "../../../../domain/refunds.ts";
import { contract, MANY_KEYS } from "../contract.ts";
import { choice, currency, id, words } from "../fields.ts";

const about = {
  event_id: z.string().min(1).max(200).optional().describe("the line that it made"),
  order_id: z.string().trim().min(1).max(500).optional().describe("all of the order"),
};
const client_id = id.optional().describe("needed where two clients have that order or event");
const reason = words(500);
const status = choice(["applied", "accepted"]).describe("accepted: it is in the log, and applied soon");

const outcome = z.object({
  decision_id: z.string(),
  status,
  version: z.int().nullable().describe("of the newest row of its lines"),
  closed_period: z.boolean().describe("a month of its lines is locked: money moves by adjustments"),
});
const conflicts = ["client_archived", "partner_archived"];

export const assignSale = contract({
  route: "POST /api/sales/assign",
  summary: "Credits a partner for the lines of a sale that are credited to none.",
  body: z.strictObject({ client_id, ...about, partner_id: id, campaign_id: id.optional(), reason }),
  answers: outcome,
  isIdempotent: true,
  conflicts: ["already_credited", ...conflicts],
});

export const reattributeSale = contract({
  route: "POST /api/sales/reattribute",
  summary: "Moves sales to a partner, or ends their review, or both.",
  body: z.strictObject({
    client_id,
    event_ids: z.array(z.string().min(1).max(200)).min(1).max(1_000).optional().describe("of several: `items`"),
    order_id: about.order_id,
    partner_id: id.optional().describe("may be left out where a review ends"),
    campaign_id: id.optional(),
    review: choice(["release", "reject"]).optional().describe("ends the fraud review of its lines"),
    keep: choice(["total", "lines"])
      .optional()
      .describe("of a release: what stands of a total and of lines that are worth another amount"),
    reason,
  }),
  answers: z.union([outcome, z.object({ items: z.array(outcome.extend({ event_id: z.string() })) })]),
  isIdempotent: true,
  mostKeys: MANY_KEYS,
  conflicts: ["no_review", ...conflicts],
});

export const refundSale = contract({
  route: "POST /api/sales/refund",
  summary: "Gives back what was sold: all of an order, a product of it, or the line of an event.",
  body: z.strictObject({
    client_id,
    ...about,
    product_id: z.string().min(1).max(500).optional().describe("of the order; without it, all of the order"),
    amount: z.string().max(40).optional().describe("a decimal, like 100.00; without it, all that is left"),
    currency: currency.optional().describe("needed where the sale is in several"),
    cause: choice(REFUND_REASONS).default("other"),
    refund_id: z.string().min(1).max(128).optional().describe("by which it meets what the shop reports of it"),
    reason,
  }),
  answers: outcome,
  isIdempotent: true,
  conflicts: ["client_archived", "already_refunded", "refund_exceeds"],
});

export const bulkAttribute = contract({
  route: "POST /api/sales/bulk-attribute",
  summary: "Credits a partner for each of many sales; what cannot be done of it is answered in its place.",
  body: z.strictObject({
    client_id: id,
    items: z
      .array(z.strictObject({ ...about, partner_id: id, campaign_id: id.optional() }))
      .min(1)
      .max(1_000),
    reason,
  }),
  answers: z.object({
    results: z.array(
      z.object({
        index: z.int(),
        status: choice(["applied", "accepted", "unchanged", "rejected"]),
        code: z.string().nullable(),
        decision_id: z.string().nullable(),
        version: z.int().nullable(),
      }),
    ),
  }),
  isIdempotent: true,
  isHeavy: true,
  mostKeys: MANY_KEYS,
  conflicts: ["client_archived"],
});
