// The contracts of the budgets of a client by month.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, id, monthText, ofId, ofMonth, segment, time, version, words, yearText } from "../fields.ts";

/** The fields of a budget that is set, here or by a launch. */
export const budgetFields = {
  ...ofMonth,
  amount: z.string().max(30),
  segment: segment.nullable().default(null),
};

const row = z.object({
  id,
  client_id: id,
  year: z.int(),
  month: z.int(),
  segment: z.string().nullable().describe("null: all of them"),
  amount: z.string(),
  currency: z.string(),
  note: z.string().nullable(),
  on_overspend: choice(["alert", "stop"]).describe("stop: saved by an earlier release, it stops nothing"),
  spent: z.string().describe("commissions booked to the month, in the currency of the budget"),
  share: z.number().describe("spent / amount"),
  pace: z.number().nullable().describe("1: on plan; null before the month begins"),
  forecast: z.string().nullable().describe("at the end of the month; null before its first tenth is over"),
  month_state: choice(["future", "open", "provisional", "locked"]),
  version: z.int(),
  created_at: time,
  updated_at: time,
});

export const listBudgets = listContract({
  route: "GET /api/clients/:id/relo-budgets",
  summary: "Budgets of a client by month, with what was spent of them.",
  params: ofId,
  filters: { year: yearText.optional(), month: monthText.optional(), segment: segment.optional() },
  rows: row,
  sorts: ["-period", "period"],
});

export const saveBudget = contract({
  route: "POST /api/clients/:id/relo-budgets",
  summary: "Sets the budget of a month: 201 a new one, 200 the next version of the one with this key.",
  params: ofId,
  body: z.strictObject({
    ...budgetFields,
    currency: z.string().length(3).optional().describe("that of the client"),
    note: words(1_000).nullable().optional(),
    on_overspend: choice(["alert", "stop"])
      .optional()
      .describe("alert; stop is refused, because nothing pauses campaigns by a budget"),
    version,
  }),
  answers: row,
  status: 201,
  otherStatus: 200,
  isIdempotent: true,
  conflicts: ["version_conflict", "client_archived", "month_closed"],
});
