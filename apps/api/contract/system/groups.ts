// The contract of consumer groups.
import { z } from "zod";
import { contract } from "../contract.ts";
import { masked, maskedEmail, time } from "../fields.ts";

const hold = z.object({
  operation: z.string(),
  kind: z.string(),
  actor: z.string(),
  reason: z.string().nullable(),
  since: time,
  released_at: time.nullable().describe("since when its workers may join again"),
});
const member = z.object({ client_id: z.string(), ip: z.string() });
const group = z.object({
  group: z.string(),
  topic: z.string(),
  nodes: z.array(z.string()).describe("stages or sinks, in the order of the chain"),
  hosts: z.array(z.string()).describe("the same with the revision that decides"),
  state: z.string(),
  members: z.array(member),
  lag: z.int().describe("records that wait"),
  age_seconds: z.number().describe("of the oldest record that waits"),
  rate: z.number().nullable().describe("records read a second since this was asked last; null at first"),
  partitions: z.array(
    z.object({
      partition: z.int(),
      committed: z.int().nullable(),
      low: z.int(),
      high: z.int(),
      lag: z.int(),
      waiting_since: time.nullable(),
    }),
  ),
  hold: hold.nullable(),
});

export const readGroups = contract({
  route: "GET /api/groups",
  summary: "What reads the log: who hosts it, how far it is behind, what holds it.",
  answers: {
    admin: z.object({ data: z.array(group) }),
    viewer: z.object({
      data: z.array(
        group.extend({
          members: z.array(member.extend({ ip: masked })),
          hold: hold.extend({ actor: maskedEmail }).nullable(),
        }),
      ),
    }),
  },
});
