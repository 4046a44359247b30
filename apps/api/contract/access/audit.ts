// The contract of the audit: each action with its actor, and the state before and after.
import { z } from "zod";
import { listContract } from "../contract.ts";
import { id, idText, masked, maskedEmail, range, time } from "../fields.ts";

const entry = z.object({
  id: z.string(),
  at: time,
  day: z.string().describe("of America/Mexico_City"),
  actor: z.string(),
  role: z.string(),
  action: z.string(),
  client_id: id.nullable(),
  entity: z.string(),
  before: z.json().nullable(),
  after: z.json().nullable(),
  request_id: z.string(),
  ip: z.string().nullable(),
});

export const listAudit = listContract({
  route: "GET /api/audit",
  summary: "Who did what; the last 30 days unless asked for.",
  filters: {
    client_id: idText.optional(),
    actor: z.string().min(1).max(254).optional(),
    action: z.string().min(1).max(100).optional(),
    entity: z.string().min(1).max(200).optional().describe("kind:id, e.g. client:7"),
    ...range,
  },
  rows: { admin: entry, viewer: entry.extend({ actor: maskedEmail, ip: masked.nullable() }) },
  sorts: ["-at", "at"],
  // A filter by address would reveal whether the address is there.
  without: { viewer: ["actor"] },
  csv: {
    file: "audit",
    columns: "id day at actor role action client_id entity before after request_id ip",
  },
});
