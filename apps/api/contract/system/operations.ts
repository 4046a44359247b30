// The contracts of moves of the log: planned, asked for with the token of the plan, followed.
import { z } from "zod";
import { moveKinds, moveStates } from "../../../../modules/moves/moves.ts";
import { contract, listContract } from "../contract.ts";
import { choice, time, words } from "../fields.ts";

const target = z.string().regex(/^[a-z][a-z0-9-]{0,63}$/, "give the name of a stage or sink");
const reason = words(500);
/** With its zone: without one it would be a guess. */
const moment = z.codec(
  z.iso.datetime({ offset: true, error: "give a time with its zone, as RFC 3339" }),
  // One below 0 is a word of the broker: -1 is its end.
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
]);

const partition = z.object({ topic: z.string(), partition: z.int(), from: z.int(), to: z.int() });

export const planOperation = contract({
  route: "POST /api/operations/plan",
  summary: "What a rewind, a relearn or a replay would do; touches nothing.",
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
export const readOperation = contract({
  route: "GET /api/operations/:id",
  summary: "How far one is, by partition, and what came of it.",
  params: z.strictObject({ id: z.string().regex(/^op_[0-9a-f-]{36}$/) }),
  answers: operation.extend({
    partitions: z.array(partition.extend({ at: z.int().nullable().describe("null while the log does not say") })),
  }),
});
