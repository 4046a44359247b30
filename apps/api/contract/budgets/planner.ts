// The contracts of month plans: planned commissions by partner and segment.
import { z } from "zod";
import { termFields } from "../../../../modules/catalog/contracts/contract-terms.ts";
import { contract, MANY_KEYS } from "../contract.ts";
import {
  choice,
  id,
  idText,
  maskedEmail,
  monthText,
  ofMonth,
  segment,
  time,
  version,
  words,
  yearText,
} from "../fields.ts";
import { money, ratio, stamp } from "../figures/shapes.ts";

const MOST_LINES = 500;
const INT4 = 2_147_483_647;
const status = choice(["draft", "approved"]);

const stored = {
  partner_id: id,
  segment: z.string().nullable().describe("null: all segments of the partner that have no line of their own"),
  budget: money.describe("planned commission"),
  target_conversions: z.int(),
  rate: z.string().nullable().describe("percent that the plan expects"),
};
/** The actual figures of a line, or of the whole plan. */
export const planFigures = {
  conversions: z.int(),
  commission: money.describe("booked to the month, in the currency of the plan"),
  share_used: ratio.describe("commission / budget"),
  pace: ratio.describe("1: on plan; null before the month begins"),
  forecast: money.nullable().describe("at the end of the month; null before its first tenth is over"),
};
const figures = { ...planFigures, forecast_over: z.boolean().describe("the forecast is above the budget") };
const partner = z.string().nullable().describe("its name");

const plan = {
  client_id: id,
  year: z.int(),
  month: z.int(),
  status,
  version: z.int().describe("0: there is no plan yet"),
  month_state: choice(["future", "open", "provisional", "locked"]),
  currency: z.string(),
  lines: z.array(
    z.object({
      ...stored,
      partner,
      contract_rate: z
        .string()
        .nullable()
        .describe("of the contract for purchases in force on the 1st; null: no percent"),
      ...figures,
    }),
  ),
  totals: z.object({ budget: money, target_conversions: z.int(), ...figures }),
};
const step = z.object({
  version: z.int(),
  status,
  at: time,
  by: z.string(),
  reason: z.string().nullable(),
  changes: z
    .object({ added: z.int(), changed: z.int(), removed: z.int() })
    .describe("lines against the version before; of an approval against the one approved before"),
});

const whole = {
  ...stamp,
  ...plan,
  relo_budget: z
    .object({ amount: money, currency: z.string(), spent: money, share: ratio, forecast: money.nullable() })
    .nullable()
    .describe("of all segments of the client; null: none is set"),
  suggestions: z
    .array(z.object({ ...stored, partner }))
    .describe("the lines of the month before, while there is no plan"),
};

export const readPlanner = contract({
  route: "GET /api/planner",
  summary: "The plan of a month, and what came of it.",
  query: z.strictObject({ client_id: idText, year: yearText, month: monthText }),
  answers: {
    admin: z.object({ ...whole, history: z.array(step).describe("the newest 50 steps") }),
    viewer: z.object({ ...whole, history: z.array(step.extend({ by: maskedEmail })) }),
  },
});

const ofPlan = { client_id: id, ...ofMonth };

export const savePlan = contract({
  route: "POST /api/planner/save",
  summary: "Replaces the plan of a month, as a draft.",
  body: z.strictObject({
    ...ofPlan,
    lines: z
      .array(
        z.strictObject({
          partner_id: id,
          segment: segment.nullable().default(null),
          budget: z.string().max(30),
          target_conversions: z.int().min(0).max(INT4).default(0),
          rate: termFields.rate,
        }),
      )
      .max(MOST_LINES, `at most ${MOST_LINES} lines`),
    version,
  }),
  answers: z.object(plan),
  isIdempotent: true,
  mostKeys: MANY_KEYS,
  conflicts: ["version_conflict", "client_archived", "partner_archived", "plan_approved", "month_closed"],
});

const said = z.object({ budget: money, target_conversions: z.int(), rate: z.string().nullable() }).nullable();
const moved = z.object({
  ...plan,
  changes: z
    .array(z.object({ partner_id: id, segment: z.string().nullable(), before: said, after: said }))
    .describe("against the version that was approved last"),
});

export const approvePlan = contract({
  route: "POST /api/planner/approve",
  summary: "Approves the plan of a month: its lines and the contracts of its partners stay as they are.",
  body: z.strictObject({ ...ofPlan, version }),
  answers: moved,
  isIdempotent: true,
  conflicts: [
    ...["version_conflict", "client_archived", "invalid_transition", "plan_empty", "month_closed", "rate_mismatch"],
  ],
});

export const reopenPlan = contract({
  route: "POST /api/planner/reopen",
  summary: "Makes an approved plan a draft again, which is its next version.",
  body: z.strictObject({ ...ofPlan, reason: words(500).optional(), version }),
  answers: z.object(plan),
  isIdempotent: true,
  conflicts: ["version_conflict", "client_archived", "invalid_transition", "month_closed"],
});
