// The schedule that deletes what requests leave behind: answers after 7 days, marks of postbacks
// after 32, jobs and mails after 90, uploads in parts after 7, and marks of imported rows after 24
// months.
import type { Pool } from "pg";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { forgetKeys } from "../../../modules/base/idempotency/idempotency.ts";
import { forgetJobs } from "../../../modules/base/jobs/jobs.ts";
import { forgetMails } from "../../../modules/base/mails/mails.ts";
import { forgetUploads } from "../../../modules/intake/imports/parts/sent-parts.ts";
import { forgetRows } from "../../../modules/intake/imports/run/clean-up.ts";
import { forgetMarks } from "../../../modules/intake/payment-notices/marks.ts";

const all = [forgetKeys, forgetMarks, forgetJobs, forgetMails, forgetRows, forgetUploads];

export const forgettingRequests = (pool: Pool): Schedule => ({
  name: "requests-forget",
  pauseMs: 3_600_000,
  work: async () => {
    let forgotten = 0;
    for (const forget of all) forgotten += await forget(pool);
    return forgotten;
  },
});
