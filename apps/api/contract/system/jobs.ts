// The contracts of jobs, which outlive their request.
import { z } from "zod";
import { jobKinds, jobStates } from "../../../../modules/base/jobs/jobs.ts";
import { contract, listContract } from "../contract.ts";
import { choice, id, idText, maskedEmail, time } from "../fields.ts";

const job = z.object({
  id: z.string(),
  kind: choice(jobKinds),
  client_id: id,
  status: choice(jobStates),
  progress: z.object({ done: z.int(), total: z.int().nullable() }),
  result: z.json().nullable(),
  error: z.string().nullable(),
  created_by: z.string(),
  created_at: time,
  finished_at: time.nullable(),
});
const answers = { admin: job, viewer: job.extend({ created_by: maskedEmail }) };

export const listJobs = listContract({
  route: "GET /api/jobs",
  summary: "Jobs of the last 90 days.",
  filters: { kind: choice(jobKinds).optional(), status: choice(jobStates).optional(), client_id: idText.optional() },
  rows: answers,
  sorts: ["-created_at", "created_at"],
});
export const readJob = contract({
  route: "GET /api/jobs/:id",
  summary: "One job.",
  params: z.strictObject({ id: z.string().regex(/^job_[0-9a-f-]{36}$/) }),
  answers,
});
