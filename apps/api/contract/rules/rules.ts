// The contracts of attribution rules, which credit a partner for events that meet a condition.
import { z } from "zod";
import { parseCondition } from "../../../../domain/conditions/condition.ts";
import { contract, listContract } from "../contract.ts";
import { choice, day, id, idText, maskedEmail, ofId, time, version, words } from "../fields.ts";

const status = choice(["active", "inactive"]);
/** The parts of a JSON pointer. */
const pathOf = (pointer: string): string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
/** The schema takes any JSON; the grammar reports each fault at its place in the condition. */
export const condition = z
  .unknown()
  .superRefine((given, context) => {
    const parsed = parseCondition(given);
    if (parsed.kind === "problems")
      for (const { pointer, code, detail } of parsed.problems)
        context.addIssue({ code: "custom", path: pathOf(pointer), message: detail, params: { code } });
  })
  .describe("{all: []}, {any: []}, {not: condition} or {field, op, value}");
export const credits = z.strictObject({ partner_id: id, campaign_id: id.optional() });
export const priority = z.int().min(-1_000_000).max(1_000_000).describe("the highest wins");

const given = {
  name: words(200),
  status: status.default("active"),
  priority: priority.default(0),
  effective_from: day.nullable().default(null),
  effective_to: day.nullable().default(null).describe("the first day not in force"),
  when: condition,
  // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
  then: credits,
};

const rule = z.object({
  id,
  client_id: id,
  name: z.string(),
  status,
  archived: z.boolean(),
  priority: z.int(),
  effective_from: z.string().nullable(),
  effective_to: z.string().nullable(),
  when: z.json(),
  // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
  then: z.object({ partner_id: id, campaign_id: id.optional() }),
  leaves: z.int().describe("comparisons in the condition; of equal priority the rule with most of them wins"),
  version: z.int(),
  created_at: time,
  updated_at: time,
});
const sentence = z.string().describe("the rule in words");
const saved = rule.extend({ sentence });
const versionsBy = (by: z.ZodType) => z.array(z.object({ version: z.int(), at: time, by }));
const read = saved.extend({
  versions: versionsBy(z.string()),
  hits_30d: z.int().nullable().describe("events of the last 30 days that it is credited with; null: not known in time"),
});

export const listRules = listContract({
  route: "GET /api/rules",
  summary: "Rules in the order in which they win; archived ones are left out.",
  filters: { client_id: idText.optional(), status: status.optional(), partner_id: idText.optional() },
  rows: rule,
  sorts: ["-priority", "priority", "-updated_at", "updated_at"],
});

export const readRule = contract({
  route: "GET /api/rules/:id",
  summary: "One rule in words, with its versions and how often it was credited.",
  params: ofId,
  answers: { admin: read, viewer: read.extend({ versions: versionsBy(maskedEmail) }) },
});

const refused = ["client_archived", "partner_inactive", "too_many_rules"];

export const createRule = contract({
  route: "POST /api/rules",
  summary: "Saves a rule; it acts on events that are received from then on.",
  body: z.strictObject({ client_id: id, ...given }),
  answers: saved,
  status: 201,
  isIdempotent: true,
  conflicts: refused,
});

export const replaceRule = contract({
  route: "PUT /api/rules/:id",
  summary: "Saves the next version of a rule: the whole of it. Former versions stay.",
  params: ofId,
  body: z.strictObject({ ...given, version }),
  answers: saved,
  conflicts: ["version_conflict", "rule_archived", ...refused],
});

export const archiveRule = contract({
  route: "DELETE /api/rules/:id",
  summary: "Switches a rule off and archives it; what it was credited with stays.",
  params: ofId,
  body: z.strictObject({ version }).optional(),
  conflicts: ["version_conflict", "client_archived"],
});
