// Jobs on a real database: each is requested once, done by one process at a time, and taken over
// when that process dies.
import { afterAll, beforeAll, expect, test } from "vitest";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { askForJob, completeJob, failJob, forgetJobs, reportProgress, takeJob } from "../../modules/base/jobs/jobs.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

const asked = (key: string, client = 7) =>
  transaction(database.pool(), [client], (tx) =>
    askForJob(tx, { kind: "backfill", client_id: client, key, input: { rule_id: 3 }, created_by: "ana@example.com" }),
  );
const stateOf = async (id: string) =>
  (
    await database.adminPool.query(
      sql`select status, done, total, result, error, attempts from jobs where job_id = ${id}`,
    )
  ).rows[0];
const expire = () =>
  database.adminPool.query("update jobs set lease_until = now() - interval '1 s' where status = 'running'");

test("the same work is one job, also when it is asked for twice at once; another client's is another", async () => {
  const [one, two, other] = await Promise.all([asked("same"), asked("same"), asked("same", 8)]);
  expect(one).toBe(two);
  expect(other).not.toBe(one);
  await expect(
    asked("foreign", 9).then(() =>
      transaction(database.pool(), [7], (tx) =>
        askForJob(tx, { kind: "backfill", client_id: 9, key: "x", input: {}, created_by: "x" }),
      ),
    ),
  ).rejects.toThrow(/row-level security/);
  await database.adminPool.query("delete from jobs");
});

test("ten processes at once take the oldest of two jobs of a kind once, and the other when it has ended", async () => {
  const pool = database.pool({ max: 10 });
  const ids = [await asked("a"), await asked("b")];
  const all = await Promise.all(Array.from({ length: 10 }, (_, n) => takeJob(pool, ["backfill"], `p${n}`)));
  const taken = all.filter((job) => job !== undefined);
  expect(taken.map(({ job_id }) => job_id)).toEqual([ids[0]]);
  expect(await takeJob(pool, ["import_undo"], "p")).toBeUndefined();
  expect(await completeJob(pool, taken[0]!, {})).toBe(true);
  expect((await takeJob(pool, ["backfill"], "p"))?.job_id).toBe(ids[1]);
  await database.adminPool.query("delete from jobs");
});

test("a process that was silent has lost its job: what it reports and how it ends are refused", async () => {
  const pool = database.pool();
  const id = await asked("c");
  const first = (await takeJob(pool, ["backfill"], "one"))!;
  expect(first).toMatchObject({ job_id: id, client_id: 7, input: { rule_id: 3 }, done: 0 });
  expect(await reportProgress(pool, first, { done: 40, total: 100, checkpoint: { at: 4 } })).toBe(true);
  expect(await takeJob(pool, ["backfill"], "two")).toBeUndefined();
  await expire();
  const second = (await takeJob(pool, ["backfill"], "two"))!;
  expect([second.job_id, second.done, second.fence > first.fence]).toEqual([id, 40, true]);
  expect([first.checkpoint, second.checkpoint]).toEqual([null, { at: 4 }]);
  expect(await reportProgress(pool, first, { done: 50, total: 100, checkpoint: { at: 5 } })).toBe(false);
  expect(await failJob(pool, first, "late")).toBe(false);
  expect(await completeJob(pool, second, { matched: 3 })).toBe(true);
  expect(await failJob(pool, second, "again")).toBe(false);
  expect(await stateOf(id)).toEqual({
    status: "completed",
    done: 40,
    total: 100,
    result: { matched: 3 },
    error: null,
    attempts: 2,
  });
});

test("a job that ended is forgotten after 90 days", async () => {
  const id = await asked("c");
  expect(await forgetJobs(database.pool())).toBe(0);
  await database.adminPool.query("update jobs set finished_at = now() - interval '91 days'");
  expect([await forgetJobs(database.pool()), await stateOf(id)]).toEqual([1, undefined]);
});
