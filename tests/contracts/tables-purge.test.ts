// Rows that are older than their client keeps events lose their visitor, in Postgres and in
// ClickHouse; what earned nothing goes; every figure stays.
import { Redis } from "ioredis";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { tablesPurge } from "../../apps/keeper/schedules/archive.ts";
import { leadSubject } from "../../domain/ids.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { purgeEvents, scrubEvents } from "../../modules/privacy/purge-events.ts";
import { purgeTables } from "../../modules/privacy/purge-tables.ts";
import { dayMs, noon } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { linesWith, VisitorWorld } from "../support/visitor-world.ts";
import { until } from "../support/waits.ts";

const { env } = sharedStack();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
const redis = new Redis(env.REDIS_URL!);
let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool();
});
afterAll(async () => {
  redis.disconnect();
  await clickhouse.close();
  await database.drop();
});

let tenants = 800_000_000 + (Date.now() % 1_000_000) * 100;
const worldOf = (client: number): VisitorWorld =>
  new VisitorWorld({ pool, adminPool: database.adminPool, clickhouse, redis }, client);
let world: VisitorWorld;
beforeEach(() => {
  tenants += 1;
  world = worldOf(tenants);
});
const ago = (days: number): number => noon - days * dayMs;
/** Rows of events; edges, choices and memory have a retention of their own. */
const rowsWith = async (of: VisitorWorld, needle: string): Promise<readonly string[]> =>
  linesWith(await of.everything(), needle).filter((line) =>
    /^(product_sales|app_events|conversions|events) /.test(line),
  );
const countOf = async (of: VisitorWorld, table: string): Promise<number> =>
  (await of.everything()).split("\n").filter((line) => line.startsWith(`${table} `)).length;

test("a row loses its visitor when its client keeps events no longer, and no figure moves", async () => {
  const long = worldOf(++tenants);
  for (const [of, name] of [[world, "here"] as const, [long, "there"] as const]) {
    await of.plantEvents(`old-${name}`, null, "order-old", ago(93));
    await of.plantEvents(`known-${name}`, "ana@example.com", "order-known", ago(93));
    await of.plantEvents(`young-${name}`, null, "order-young", ago(91));
  }
  const clients = [
    { clientId: world.client, months: 3 },
    { clientId: long.client, months: 24 },
  ];
  const [young, there, sums] = [
    await rowsWith(world, world.did("young-here")),
    await long.everything(),
    await world.money(),
  ];
  expect((await rowsWith(world, world.did("old-here"))).length).toBeGreaterThan(8);
  const purged = await purgeTables(pool, clients, { now: noon, atOnce: 2 });
  // Of two devices each a sale, a refund, an install, an event of the app that goes, and three
  // conversions.
  expect(purged).toEqual({ rows: 14, stoppedAt: null });
  expect(await purgeTables(pool, clients, { now: noon })).toEqual({ rows: 0, stoppedAt: null });
  await until("the analytics store has purged", 60_000, async () =>
    expect(await purgeEvents(clickhouse, clients, noon)).toEqual({ rows: 0, isDone: true }),
  );
  expect(await scrubEvents(clickhouse, clients, noon)).toBe(8);
  await until("nothing is left to scrub", 60_000, async () =>
    expect(await scrubEvents(clickhouse, clients, noon)).toBe(0),
  );
  for (const canary of [world.did("old-here"), world.did("known-here"), world.hashOf("ana@example.com"), "-old-here"])
    expect(await rowsWith(world, canary)).toEqual([]);
  // By this key a decision finds the line of a lead.
  expect(await rowsWith(world, leadSubject("lead-old-here"))).toHaveLength(1);
  expect(await rowsWith(world, world.did("young-here"))).toEqual(young);
  expect(await long.everything()).toBe(there);
  expect(await world.money()).toEqual(sums);
  const named = await rowsWith(world, "order-old");
  expect(named.map((line) => line.split(" ")[0])).toEqual([
    ...["conversions", "events", "events", "product_sales", "product_sales"],
  ]);
  expect(await countOf(world, "app_events")).toBe(4);
});

test("a purge that has to stop goes on where it was", async () => {
  for (const order of ["a", "b", "c"]) await world.plantEvents("old", null, order, ago(93));
  const clients = [{ clientId: world.client, months: 3 }];
  let [rows, turns] = [0, 0];
  for (let from: Parameters<typeof purgeTables>[2]["from"] = null; ; turns += 1) {
    let asked = 0;
    const done = await purgeTables(pool, clients, { now: noon, from, atOnce: 2, isClosing: () => ++asked > 1 });
    rows += done.rows;
    from = done.stoppedAt;
    if (from === null) break;
  }
  expect([rows, turns > 5]).toEqual([21, true]);
  const left = await rowsWith(world, world.did("old"));
  expect(left.filter((line) => !line.startsWith("events "))).toEqual([]);
});

test("the keeper purges tables once a day by the months of each client, a newer version of a row again", async () => {
  const shop = { client_id: -1, slug: `shop-${tenants}`, name: "Shop", retention_months: 3 };
  const client = (await writeReference(pool, "test", { clients: [shop] })).idOf("clients", -1);
  const own = worldOf(client);
  await own.plantEvents("old", null, "order", ago(93));
  let now = noon;
  const schedule = tablesPurge(pool, () => now);
  const turn = () => schedule.work(() => false);
  expect([await turn(), await turn()]).toEqual([7, 0]);
  await database.adminPool.query("update product_sales set did = 'again', version = 2 where client_id = $1", [client]);
  expect(await turn()).toBe(0);
  now += dayMs;
  expect(await turn()).toBe(2);
  expect(await turn()).toBe(0);
});
