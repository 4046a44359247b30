// The contracts of trying a rule on history, and of applying it to history.
import { z } from "zod";
import { backfillBody, historyFields } from "../../../../modules/money/trials/backfill-body.ts";
import { contract } from "../contract.ts";
import { choice, id, ofId, time } from "../fields.ts";
import { money } from "../figures/shapes.ts";
import { condition, credits, priority } from "./rules.ts";

const held = z.object({ partner_id: id.nullable(), because: z.string() });
const sample = z.object({
  event_id: z.string(),
  t: z.string(),
  at: time,
  order_id: z.string().nullable(),
  value: money.nullable(),
  currency: z.string().nullable(),
  before: held,
  after: held,
});
const delta = { commission_delta: money, currency: z.string() };
const period = { partner_id: id, year: z.int(), month: z.int() };
const found = {
  ok: z.literal(true),
  rule_id: id.nullable(),
  rule_version: z.int().nullable(),
  dry_run: z.boolean(),
  from: z.string(),
  to: z.string(),
  evaluated: z.int(),
  matched: z.int(),
  truncated: z.boolean().describe("only the oldest 50,000 events were evaluated, or the time was over"),
  by_event_type: z.record(z.string(), z.int()),
  by_partner: z.array(z.object({ partner_id: id.nullable(), matched: z.int() })).describe("as credited now"),
  ...delta,
  other_currencies: z.array(z.object(delta)),
  affected_periods: z.array(z.object({ ...period, closed: z.boolean() })),
  samples: z.array(sample),
};

export const simulateRule = contract({
  route: "POST /api/rules/simulate",
  summary: "Tries a rule on history with the live attribution; writes nothing.",
  body: z
    .strictObject({
      client_id: id,
      // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
      rule: z.strictObject({ when: condition, then: credits, priority: priority.default(0) }).optional(),
      rule_id: id.optional(),
      ...historyFields,
      mode: choice(["with_active", "alone"]).default("with_active"),
    })
    .refine(({ rule, rule_id }) => (rule === undefined) !== (rule_id === undefined), {
      path: ["rule"],
      error: "give either a rule or the rule_id of one that is saved",
    }),
  answers: z.object({
    ...found,
    job_id: z.null(),
    money: z.array(
      z.object({ ...period, before: money, after: money, delta: money, currency: z.string(), closed: z.boolean() }),
    ),
    budgets_breached: z.array(
      z.object({
        ...{ year: z.int(), month: z.int(), segment: z.string().nullable(), currency: z.string() },
        ...{ budget: money, forecast_after: money },
      }),
    ),
    would_lose_to: z.array(z.object({ rule_id: id, count: z.int() })),
  }),
  isHeavy: true,
});

export const backfillRule = contract({
  route: "POST /api/rules/:id/backfill",
  summary: "Applies a rule to history: a dry run (200) unless asked for otherwise, else a job (202).",
  params: ofId,
  body: backfillBody,
  answers: z.object({ ...z.object(found).partial().shape, ok: z.literal(true), job_id: z.string().nullable() }),
  otherStatus: 202,
  isIdempotent: true,
  isHeavy: true,
  conflicts: ["version_conflict", "client_archived"],
});
