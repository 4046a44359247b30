// The route contracts of the contracts that partners have with clients.
import { z } from "zod";
import { termFields } from "../../../../modules/catalog/contracts/contract-terms.ts";
import { contract, listContract } from "../contract.ts";
import { choice, day, decimal, eventType, id, idText, ofId, segment, time, version } from "../fields.ts";

const saved = z.object({
  id,
  partner_id: id,
  client_id: id,
  segment: z.string().nullable().describe("null: all segments that have no contract of their own"),
  event_type: z.string(),
  type: termFields.type,
  rate: decimal.nullable(),
  amount: decimal.nullable(),
  tiers: z.array(z.object({ from: decimal, rate: decimal.nullish(), amount: decimal.nullish() })).nullable(),
  tier_mode: choice(["marginal", "retroactive"]).nullable(),
  months: z.int().nullable(),
  per: choice(["order", "line"]).describe("whether its amounts are those of an order or of each line of it"),
  min: decimal.nullable(),
  max: decimal.nullable(),
  cap: z.object({ period: choice(["day", "month", "lifetime"]), amount: decimal }).nullable(),
  currency: z.string().nullable().describe("of the amounts; null when there are none"),
  status: choice(["active", "archived"]),
  effective_from: day,
  effective_to: day.nullable().describe("the first day not in force"),
  version: z.int(),
  recorded_at: time.describe("claims received from then on are priced by it"),
  in_force: z.boolean().describe("on the day `at`, or today"),
  created_at: time.describe("of its first version"),
  updated_at: time,
});
const commission = { commission: z.string(), currency: z.string() };

export const listPartnerContracts = listContract({
  route: "GET /api/partners/:id/segment-commissions",
  summary: "What a partner earns; every version with history=true.",
  params: ofId,
  filters: {
    client_id: idText.optional(),
    event_type: eventType.optional(),
    segment: segment.optional(),
    at: day.optional().describe("only those in force on this day"),
    history: choice(["true", "false"]).default("false"),
  },
  rows: saved,
  sorts: ["-effective_from", "effective_from"],
});

export const savePartnerContract = contract({
  route: "POST /api/partners/:id/segment-commissions",
  summary: "Saves a contract: 201 a new one, 200 the next version of the one with this key.",
  params: ofId,
  body: z.strictObject({
    client_id: id,
    segment: segment.nullable().default(null),
    event_type: eventType,
    ...termFields,
    per: termFields.per.describe("left out: as the version before; order for a new contract"),
    effective_from: day,
    effective_to: day.nullable().default(null),
    version,
  }),
  answers: saved.extend({
    not_applied_to: z
      .object({ conversions: z.int(), ...commission, other_currencies: z.array(z.object(commission)) })
      .describe("settled conversions of its days, which keep what they earned"),
  }),
  status: 201,
  otherStatus: 200,
  isIdempotent: true,
  conflicts: ["version_conflict", "partner_archived", "client_archived", "month_closed", "month_approved"],
});
