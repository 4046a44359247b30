// The state of the edges' path into the log, read back from a real Postgres: the worst edge now,
// since when, and every change.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ingestPath } from "../../modules/intake/path/ingest-path.ts";
import { type IngestPathState, recordIngestPath } from "../../modules/intake/path/path-checks.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 2 });
});
afterAll(() => database.drop());

const HOUR = 3_600_000;
const start = Date.now() - 10 * HOUR;
const check = (instance: string, state: IngestPathState, hours: number, waiting = 0) =>
  recordIngestPath(pool, { instance, state, checked_at: start + hours * HOUR, waiting_events: waiting, reason: null });

test("nothing is known before an edge has checked", async () => {
  expect(await ingestPath(pool)).toEqual({ state: null, since: null, checked_at: null, instances: [], history: [] });
});

test("the worst edge is the state, changes are the history, and hourly checks that say the same are none", async () => {
  for (const hours of [0, 1, 2]) await check("ingest", "operational", hours);
  await check("ingest-standby", "operational", 0.5);
  await check("ingest", "primary_down", 2.5, 40);
  await check("ingest", "primary_down", 3.5, 90);
  await check("ingest-standby", "operational", 3.4);
  const path = await ingestPath(pool, start + 4 * HOUR);
  expect(path).toMatchObject({ state: "primary_down", since: start + 2.5 * HOUR, checked_at: start + 3.5 * HOUR });
  expect(path.instances).toMatchObject([
    {
      instance: "ingest",
      state: "primary_down",
      since: start + 2.5 * HOUR,
      checked_at: start + 3.5 * HOUR,
      waiting_events: 90,
    },
    { instance: "ingest-standby", state: "operational", since: start + 0.5 * HOUR },
  ]);
  expect(path.history.map(({ instance, state, checked_at: at }) => [instance, state, at])).toEqual([
    ["ingest", "primary_down", start + 2.5 * HOUR],
    ["ingest-standby", "operational", start + 0.5 * HOUR],
    ["ingest", "operational", start],
  ]);
});

test("an edge that has not been heard of for hours says nothing any more", async () => {
  await check("ingest-standby", "operational", 8);
  expect(await ingestPath(pool, start + 9 * HOUR)).toMatchObject({
    state: "operational",
    since: start + 0.5 * HOUR,
    instances: [{ instance: "ingest-standby" }],
  });
});

test("since when an edge is well is known however often another one changes", async () => {
  for (let n = 0; n < 120; n++) await check("flapping", n % 2 === 0 ? "primary_down" : "operational", 8 + n / 128);
  const path = await ingestPath(pool, start + 9 * HOUR);
  expect(path.history.every(({ instance }) => instance === "flapping")).toBe(true);
  expect(path.instances).toMatchObject([
    { instance: "flapping", since: start + (8 + 119 / 128) * HOUR },
    { instance: "ingest-standby", since: start + 0.5 * HOUR },
  ]);
});

test("what is older than 90 days is forgotten, also of an edge that has gone", async () => {
  await database.adminPool.query(
    "insert into ingest_path_checks (instance, state, checked_at, waiting_events) values ('old', " +
      "'both_down', now() - interval '91 days', 0)",
  );
  await check("ingest", "operational", 9);
  const { rows } = await database.adminPool.query("select * from ingest_path_checks where instance = 'old'");
  expect(rows).toEqual([]);
});
