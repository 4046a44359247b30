// The contract of the planned budgets of a partner in a month. The partner itself sees approved
// plans only, and no rate.
import { z } from "zod";
import { planFigures } from "../budgets/planner.ts";
import { contract } from "../contract.ts";
import { choice, id, idText, monthText, ofId, yearText } from "../fields.ts";
import { money, stamp } from "../figures/shapes.ts";

const line = z.object({
  client_id: id,
  segment: z.string().nullable().describe("null: all segments that have no line of their own"),
  budget: money.describe("planned commission"),
  currency: z.string(),
  target_conversions: z.int(),
  ...planFigures,
});
const withLines = (one: z.ZodType) => z.object({ ...stamp, year: z.int(), month: z.int(), data: z.array(one) });

export const readSegmentBudgets = contract({
  route: "GET /api/partners/:id/segment-budgets",
  summary: "What is planned for a partner in a month, this one when none is given; a partner is shown approved plans.",
  params: ofId,
  query: z.strictObject({ client_id: idText.optional(), year: yearText.optional(), month: monthText.optional() }),
  answers: {
    admin: withLines(
      line.extend({
        plan_status: choice(["draft", "approved"]),
        rate: z.string().nullable().describe("percent that the plan expects"),
      }),
    ),
    partner: withLines(line),
  },
});
