// The contracts of jobs on the log: planned, started with the token of the plan, followed.
import { z } from "zod";
import { stages } from "../../../../modules/money/reprocess/ports.ts";
import { moveKinds, moveStates } from "../../../../modules/running/log-jobs/moves.ts";
import { contract, listContract } from "../contract.ts";
import { choice, id, time, words } from "../fields.ts";

const target = z.string().regex(/^[a-z][a-z0-9-]{0,63}$/, "give the name of a stage or sink");
const reason = words(500);
/** A time must have a zone, which could only be guessed otherwise. */
const moment = z.codec(
  z.iso.datetime({ offset: true, error: "give a time with its zone, as RFC 3339" }),
  // The broker reads negative times as words: -1 is the end of the log.
  z.number().min(0, "give a time of 1970 or later"),
  { decode: (text) => Date.parse(text), encode: (at) => new Date(at).toISOString() },
);
const offset = z.string().regex(/^offset:\d{1,15}$/, "give earliest, offset:N, or a time as RFC 3339");

const asked = z.discriminatedUnion("move", [
  z.strictObject({
    move: z.literal("rewind"),
    target,
    from: z.union([z.literal("earliest"), offset, moment]).describe("earliest, offset:N, or a time as RFC 3339"),
    partial: z.boolean().default(false).describe("as far as the log reaches"),
    reason,
  }),
  z.strictObject({ move: z.literal("relearn"), target, reason }),
  z.strictObject({
    move: z.literal("replay"),
    target: target.optional().describe("a sink; without it, every sink"),
    from: moment,
    to: moment.optional(),
    reason,
  }),
  z.strictObject({
    move: z.literal("reprocess"),
    from: moment.describe("of receipt"),
    to: moment.optional().describe("now when left out"),
    stage: choice(stages).default("attribute").describe("from which on it is computed again"),
    client_id: id.optional().describe("one client alone"),
    override_decisions: z.boolean().default(false).describe("what people have decided is replaced as well"),
    allow_closed_months: z.boolean().default(false).describe("money of closed months may move, by further entries"),
    reason,
  }),
]);

const partition = z.object({ topic: z.string(), partition: z.int(), from: z.int(), to: z.int() });

export const planOperation = contract({
  route: "POST /api/operations/plan",
  summary: "What a rewind, a relearn, a replay or reprocessing would do; touches nothing.",
  body: asked,
  answers: z.object({
    move: choice(moveKinds),
    nodes: z.array(z.string()).describe("stages and sinks that read again"),
    records: z.int(),
    estimated_seconds: z.int().nullable(),
    partitions: z.array(partition).describe("offsets from which and up to which is read again"),
    consequences: z.array(z.string()),
    problem: z.string().nullable().describe("why it is refused"),
    plan_token: z.string().nullable().describe("for POST /api/operations; null when it is refused"),
    expires_at: time.nullable(),
  }),
});

const operation = z.object({
  id: z.string(),
  move: choice(moveKinds),
  nodes: z.array(z.string()),
  request: z.looseObject({ move: z.string() }),
  reason: z.string(),
  status: choice(moveStates),
  progress: z.object({ done: z.int(), total: z.int().nullable() }),
  step: z.string().nullable().describe("the newest step"),
  verdict: z.string().nullable().describe("what came of it"),
  replay_id: z.string().nullable(),
  actor: z.string(),
  created_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
});

export const startOperation = contract({
  route: "POST /api/operations",
  summary: "Carries out what was planned; a plan is good for its user, ten minutes and once.",
  body: z.strictObject({ plan_token: z.string().min(1).max(20_000) }),
  answers: z.object({ id: z.string(), status: choice(moveStates) }),
  status: 202,
  isIdempotent: true,
  conflicts: ["plan_expired", "plan_used", "plan_outdated"],
});
export const listOperations = listContract({
  route: "GET /api/operations",
  summary: "What was asked for over this interface; the topic `operations` has what the command line did too.",
  filters: { move: choice(moveKinds).optional(), status: choice(moveStates).optional() },
  rows: operation,
  sorts: ["-created_at", "created_at"],
});
const counts = z.record(z.string(), z.int());
const held = z.object({ partner_id: id.nullable(), because: z.string() });
const difference = z.object({
  decisions: z.int().describe("that would be written: one for each sale and event that differs"),
  about_sales: z.int(),
  lines: counts,
  events: counts,
  by_reason: z.array(z.object({ from: z.string(), to: z.string(), lines: z.int(), events: z.int() })),
  conversions: z.object({
    gained: z.int(),
    lost: z.int(),
    moved: z.array(z.object({ from_partner: id, to_partner: id, lines: z.int() })),
  }),
  money: z.array(
    z.object({
      ...{ client_id: id, partner_id: id, year: z.int(), month: z.int() },
      ...{ commission: z.string(), currency: z.string(), closed: z.boolean() },
    }),
  ),
  further_money: z.int().describe("rows of money that are not shown"),
  closed_months: z.array(z.string()),
  samples: z.array(
    z.object({
      ...{ client_id: id, event_id: z.string(), t: z.string(), order_id: z.string().nullable(), scope: z.string() },
      ...{ value: z.string().nullable(), currency: z.string().nullable() },
      ...{ before: held, after: held, parts: z.array(z.string()) },
    }),
  ),
});

export const readOperation = contract({
  route: "GET /api/operations/:id",
  summary: "How far one is, by partition, and what came of it.",
  params: z.strictObject({ id: z.string().regex(/^op_[0-9a-f-]{36}$/) }),
  answers: operation.extend({
    partitions: z.array(partition.extend({ at: z.int().nullable().describe("null while the log does not say") })),
    difference: difference.nullable().describe("what a comparison found; null: it is none, or not over"),
    plan_token: z.string().nullable().describe("writes what differs; for ten minutes after the comparison"),
    expires_at: time.nullable(),
  }),
});
