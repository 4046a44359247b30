// The end of a backfill on a real database: wherever the keeper dies, its row in the audit, its
// mail and its record in the log are there once.
import { afterAll, beforeAll, expect, test } from "vitest";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { completeJob, type TakenJob, takeJob } from "../../modules/base/jobs/jobs.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { followBackfill } from "../../modules/money/trials/after-backfill.ts";
import { askForBackfill, type BackfillResult } from "../../modules/money/trials/backfill.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { mortalPool } from "../support/mortal-pool.ts";

let database: FreshDatabase;
let client: number;
let rule: number;
beforeAll(async () => {
  database = await freshDatabase();
  const { idOf } = await writeReference(database.pool(), "test", {
    clients: [{ client_id: -1, slug: "shop", name: "Shop" }],
    partners: [{ partner_id: -1, name: "Radio", email: "radio@partner.example", client_ids: [-1] }],
    rules: [
      {
        ...{ rule_id: -1, client_id: -1, name: "April", when: { field: "t", op: "eq", value: "x" } },
        // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
        then: { partner_id: -1 },
      },
    ],
  });
  client = idOf("clients", -1);
  rule = idOf("rules", -1);
  await database.adminPool.query("insert into users (email, name, role) values ('ana@shop.example', 'Ana', 'admin')");
});
afterAll(() => database.drop());

const backfilled = (): BackfillResult => ({
  ...{ rule_id: rule, rule_version: 1, from: "2026-01-01", to: "2026-01-31", evaluated: 40, truncated: false },
  ...{ matched: 30, by_event_type: { purchase: 30 }, by_partner: [{ partner_id: null, matched: 30 }] },
  ...{ decisions: 30, applied: 29, overtaken: 1, waiting: 0, left_to_recalc: 0, left_in_closed_months: 2 },
  ...{ currency: "MXN", commission_delta: "12.50", other_currencies: [{ currency: "USD", commission_delta: "1.00" }] },
  affected_periods: [{ partner_id: 3, year: 2025, month: 12, closed: true }],
});
const taken = async (created_by: string, trigger_recalc = true): Promise<TakenJob> => {
  const window = { first_day: "2026-01-01", last_day: "2026-01-31", from: 0, to: 1 };
  const asked = { rule: { client_id: client, rule_id: rule, version: 1 } as never, window, trigger_recalc };
  // An equal request would be the same job, so earlier ones get other keys.
  await database.adminPool.query("update jobs set key = job_id");
  await transaction(database.pool(), [client], (tx) => askForBackfill(tx, asked, created_by));
  return (await takeJob(database.pool(), ["backfill"], "one"))!;
};
const followed = async () => {
  const { rows } = await database.adminPool.query(sql`select
    (select count(*)::int from audit where action = 'rule.backfill_completed') as audit,
    (select count(*)::int from mails) as mails, (select count(*)::int from jobs where status = 'completed') as done,
    (select count(*)::int from outbox where record ->> 'type' = 'rule.backfill_completed') as outbox`);
  return rows[0];
};

test("a keeper that dies at any statement of it has ended nothing, and the next one ends all of it once", async () => {
  const { pool, killedBefore } = mortalPool(database, 1);
  const job = await taken("ana@shop.example");
  const result = backfilled();
  const end = (on = pool) => completeJob(on, job, result, (tx) => followBackfill(tx, job, result));
  const lost = await killedBefore(
    () =>
      end().catch((error: Error) => {
        expect(error.message).toMatch(/terminat|closed|ended/);
        return false;
      }),
    followed,
  );
  for (const change of ["update jobs", "insert into audit", "insert into outbox", "insert into mails", "commit"])
    expect(
      lost.some((statement) => statement.trim().startsWith(change)),
      change,
    ).toBe(true);
  expect(await followed()).toEqual({ audit: 1, mails: 1, done: 1, outbox: 1 });
  expect(await end(database.pool())).toBe(false);
  expect(await followed()).toEqual({ audit: 1, mails: 1, done: 1, outbox: 1 });
  const { rows: mails } = await database.adminPool.query("select happening, recipient, template, facts from mails");
  expect(mails).toMatchObject([
    {
      ...{ happening: `backfill:${job.job_id}`, recipient: "ana@shop.example", template: "backfill_recalculated" },
      facts: { rule: "April", matched: 30, applied: 29, left: 2, money: "12.50 MXN, 1.00 USD", closed: 1 },
    },
  ]);
  const { rows: audit } = await database.adminPool.query(
    sql`select actor, role, client_id, entity, after, request_id from audit where action = 'rule.backfill_completed'`,
  );
  expect(audit).toMatchObject([
    {
      ...{ actor: "keeper", role: "keeper", client_id: client, entity: `rule:${rule}`, request_id: job.job_id },
      after: { job_id: job.job_id, asked_by: "ana@shop.example", matched: 30, commission_delta: "12.50" },
    },
  ]);
});

test("one that a token asked for is mailed to no one, and so is one of a user that was removed", async () => {
  const { mails } = await followed();
  await database.adminPool.query(
    "insert into users (email, name, role, removed_at) values ('bea@shop.example', 'Bea', 'admin', now())",
  );
  for (const by of ["token:4", "bea@shop.example"]) {
    const job = await taken(by, false);
    const result = backfilled();
    expect(await completeJob(database.pool(), job, result, (tx) => followBackfill(tx, job, result))).toBe(true);
  }
  expect(await followed()).toEqual({ audit: 3, mails, done: 3, outbox: 3 });
});
