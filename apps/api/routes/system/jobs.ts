// The routes of jobs.
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { jobRows } from "../../../../modules/base/jobs/jobs.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import { shownJob } from "../../../../modules/money/undo/shown-job.ts";
import { listJobs, readJob } from "../../contract/system/jobs.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(listJobs, ({ list, query }) => list(jobRows(query), async (rows) => rows.map(shownJob))),
  route(readJob, ({ read, params, fields }) =>
    read(async (tx, { clients }) => {
      const reading = { names: fields, sort: "created_at", clients };
      const { rows } = await pageOfRows(tx, jobRows({ job_id: params.id }), reading, { limit: 1 });
      if (rows[0] === undefined) throw missing();
      return { body: shownJob(rows[0]) };
    }),
  ),
];
