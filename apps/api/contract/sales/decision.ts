// The decision of a person about a sale, as orders and explanations show it.
import { z } from "zod";
import { id, maskedEmail, money, time } from "../fields.ts";

export const decision = z.object({
  id: z.string(),
  at: time,
  by: z.string(),
  kind: z.string(),
  reason: z.string(),
  event_id: z.string().nullable().describe("whose line it is about; null: all of the order"),
  from: z.array(id).describe("the partners that were credited before"),
  to: id.nullable(),
  amount: z
    .union([money, z.literal("all")])
    .nullable()
    .describe("of a refund"),
  currency: z.string().nullable(),
});

/** The shape for a viewer. */
export const decisionMasked = decision.extend({ by: maskedEmail });
