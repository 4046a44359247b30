// The schedule that forgets what requests have left behind: answers of 7 days ago, marks of
// postbacks of 32, jobs and mails of 90.
import type { Pool } from "pg";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { forgetKeys } from "../../../modules/idempotency/idempotency.ts";
import { forgetJobs } from "../../../modules/jobs/jobs.ts";
import { forgetMails } from "../../../modules/mails/mails.ts";
import { forgetMarks } from "../../../modules/postbacks/marks.ts";

export const forgettingRequests = (pool: Pool): Schedule => ({
  name: "requests-forget",
  pauseMs: 3_600_000,
  work: async () =>
    (await forgetKeys(pool)) + (await forgetMarks(pool)) + (await forgetJobs(pool)) + (await forgetMails(pool)),
});
