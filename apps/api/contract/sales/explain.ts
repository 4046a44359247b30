// The contract of the explanation of one event: its candidates, its credit and its money.
import { z } from "zod";
import { contract } from "../contract.ts";
import { id, idText, money, time } from "../fields.ts";
import { decision, decisionMasked } from "./decision.ts";

const credit = z.object({
  status: z.string(),
  method: z.string().nullable(),
  reason: z.string().nullable(),
  partner_id: id.nullable(),
  campaign_id: id.nullable(),
  rule_id: id.nullable(),
  rule_version: z.int().nullable(),
});
const period = z.string().describe("YYYY-MM of America/Mexico_City");

const reason = z.object({ code: z.string(), weight: z.int(), evidence: z.string() });
const decided = z.object({
  credit,
  window_days: z.int().nullable(),
  clicked_at: time.nullable(),
  candidates: z.array(
    z.object({
      kind: z.string(),
      reference: z.string(),
      partner_id: id.nullable(),
      campaign_id: id.nullable(),
      won: z.boolean(),
      why_lost: z.string().nullable(),
    }),
  ),
  facts_as_of: time.nullable().describe("set when facts could not be refreshed"),
  fraud: z.object({ score: z.int(), band: z.string(), reasons: z.array(reason) }),
});

const explanation = z.object({
  event: z
    .object({
      id: z.string(),
      sender_event_id: z.string().nullable(),
      client_id: id,
      t: z.string(),
      at: time,
      source: z.string(),
      version: z.int(),
      merged_into: z.string().nullable().describe("the sale that it is a copy of; of an undone row, else the decision"),
    })
    .nullable()
    .describe("null: no longer stored; what was decided and earned remains"),
  receipt: z.object({ batch_id: z.string().nullable(), received_at: time, stored_at: time }).nullable(),
  decision: decided.nullable(),
  versions: z.array(z.object({ version: z.int(), at: time, merged_into: z.string().nullable(), credit })),
  copies: z.array(z.object({ event_id: z.string(), source: z.string(), received_at: time })),
  conversions: z.array(
    z.object({
      id: z.string(),
      version: z.int(),
      status: z.string(),
      partner_id: id,
      campaign_id: id.nullable(),
      method: z.string(),
      value: money,
      refunded: money,
      currency: z.string(),
      reason: z.string().nullable(),
      review: z.string().nullable(),
    }),
  ),
  commissions: z.array(
    z.object({
      id: z.string(),
      conversion_id: z.string(),
      status: z.string(),
      amount: money,
      currency: z.string(),
      reason: z.string().nullable(),
      period,
      payable_from: time.nullable(),
    }),
  ),
  ledger: z.array(
    z.object({
      entry_id: z.string(),
      kind: z.string(),
      conversion_id: z.string(),
      partner_id: id,
      amount: money,
      held: money,
      currency: z.string(),
      reason: z.string().nullable(),
      formula: z.string(),
      inputs: z.json(),
      contract_id: id.nullable(),
      contract_version: z.int().nullable(),
      period,
      at: time,
      lines: z.array(z.object({ account: z.string(), amount: money })),
    }),
  ),
  decisions: z.array(decision).describe("of people, about its order or about it"),
  as_known_now: z.array(z.object({ currency: z.string(), commission: money })),
});

export const explainEvent = contract({
  route: "GET /api/events/:event_id/explain",
  summary: "Why an event was credited as it was, and what it earned.",
  params: z.strictObject({ event_id: z.string().min(1).max(200) }),
  query: z.strictObject({
    client_id: idText.optional().describe("needed where two clients have sent that id"),
  }),
  answers: {
    admin: explanation,
    viewer: explanation.extend({ decisions: z.array(decisionMasked) }),
  },
  isHeavy: true,
});
