// Replaying a window of the log into the stores changes nothing, restores what was lost, and never
// brings an erased person back (R1, R2, R4, R6).
import { join } from "node:path";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { waitingRollups } from "../../modules/figures/rollups/rollup-marks.ts";
import { listReplays, openReplays, placeOf, readReplay } from "../../modules/log/replays/replays.ts";
import { type ReplayReport, reportOf } from "../../modules/log/replays/report.ts";
import { suppress } from "../../modules/privacy/suppressions.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { differingTables, type StateHash, stateHash } from "../../modules/running/state-hash/state-hash.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, newSeed, openJournal, post, startLoad } from "../support/e2e-load.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

const topics = ["events.attributed", "claims", "conversions", "ledger.entries"];
let product: Product;
let pool: pg.Pool;
let owner: pg.Pool;
let clickhouse: Clickhouse;
let tokens: readonly string[];
let clientId: number;
let admin: Readonly<Record<string, string>>;
const seed = newSeed("replay");
const random = randomFrom(seed);

beforeAll(async () => {
  product = await startProduct(
    apps.filter(({ name }) => ["ingest", "worker-chain", "worker-money", "keeper"].includes(name)),
  );
  const { env, run } = product.stack;
  pool = openPool(env.POSTGRES_URL!, { timeoutMs: 60_000 });
  owner = openPool(env.POSTGRES_ADMIN_URL!, { timeoutMs: 60_000, max: 2 });
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!, { timeoutMs: 60_000 });
  clientId = product.client("aurora-music").id;
  tokens = await product.tokens(clientId, 4);
  admin = { authorization: `Bearer ${(run.demo as { admin_token: string }).admin_token}` };
  const next = eventsOf(random, "replayed", clientId);
  for (let n = 0; n < 6; n += 1) expect((await post(product.ingestUrl, tokens[n % 4]!, next(500))).accepted).toBe(500);
  await settled();
  // Twenty devices withdraw their consent, and ten of them consent again.
  const refusals = Array.from({ length: 20 }, (_, n) => choice(n, 0, 1));
  const consents = Array.from({ length: 10 }, (_, n) => choice(n, 0xff, 2));
  const installs = Array.from({ length: 40 }, (_, n) => install(n));
  expect((await post(product.ingestUrl, tokens[0]!, [...refusals, ...consents, ...installs])).accepted).toBe(70);
  await settled();
});
afterAll(async () => {
  await Promise.all([pool?.end(), owner?.end(), clickhouse?.close()]);
  await product?.clear();
});

const choice = (device: number, mask: number, order: number) => ({
  event_id: `choice-${device}-${order}`,
  t: "consent",
  ts: Date.now() - 10_000 + order,
  cid: clientId,
  did: `replayed-device-${device}`,
  props: { mask },
});
const install = (device: number) => ({
  event_id: `install-${device}`,
  t: "install",
  ts: Date.now() - 10_000,
  cid: clientId,
  did: `replayed-device-${device}`,
  props: {},
});
/** Rows that are stored but not shown, because their device refused. */
const hidden = async (): Promise<number> => {
  const [row] = await product.clickhouse<{ n: string }>(
    "select (select count() from events final where merged_into is null) - (select count() from events_current) as n",
  );
  return Number(row!.n);
};

/** Waits until everything is read and every rollup is computed. */
const settled = async (): Promise<void> => {
  await product.quiet(60_000);
  await until("no minute waits for its rollups", 60_000, async () => {
    const { count } = await waitingRollups(pool);
    if (count > 0) throw new Error(`${count} wait`);
  });
};
const state = async (): Promise<StateHash> => {
  await settled();
  return stateHash(pool, clickhouse);
};
const called = async (hours: number | string, signal?: AbortSignal): Promise<Response> =>
  fetch(`${product.ingestUrl}/admin/wal-replay?hours=${hours}`, {
    method: "POST",
    headers: admin,
    ...(signal && { signal }),
  });
const replayed = async (hours: number): Promise<ReplayReport> => {
  const response = await called(hours);
  const body = (await response.json()) as ReplayReport;
  expect([response.status, body.ok, body.errors], JSON.stringify(body)).toEqual([200, true, []]);
  return body;
};
const recordsInLog = async (): Promise<number> => {
  const marks = await Promise.all(topics.map((topic) => product.admin.watermarks(topic)));
  return marks.flat().reduce((sum, { low, high }) => sum + high - low, 0);
};
const expectSame = (before: StateHash, after: StateHash): void => {
  expect(differingTables(before, after)).toEqual([]);
  expect(after.hash).toBe(before.hash);
};

test("a replay of 1, 6 and 48 hours changes nothing, and says exactly what it wrote again", async () => {
  const before = await state();
  expect(before.tables.filter(({ rows }) => rows > 0).map(({ table }) => table)).toEqual(
    expect.arrayContaining([
      "events",
      "receipts",
      "rollups",
      "rollup_dimensions",
      "consent_changes",
      "product_sales",
      "app_events",
      "conversions",
      "ledger_entries",
      "ledger_lines",
      "commissions",
    ]),
  );
  const records = await recordsInLog();
  for (const hours of [1, 6, 48]) {
    const report = await replayed(hours);
    expect(report).toMatchObject({
      hours,
      events_requeued: records,
      events_skipped_duplicate: 0,
      events_suppressed: 0,
    });
    const counts = [
      "files_scanned",
      "events_requeued",
      "events_skipped_duplicate",
      "events_suppressed",
      "events_refused",
    ];
    expect(Object.keys(report)).toEqual(["ok", "replay_id", "hours", "from", "to", ...counts, "errors"]);
    expectSame(before, await state());
  }
});

test("rows that were deleted, a dropped partition and an emptied Redis are as before", async () => {
  const before = await state();
  const refused = await hidden();
  expect(refused).toBeGreaterThan(0);
  await clickhouse.command({ query: "truncate table consent_changes" });
  expect(await hidden()).toBe(0);
  const month = (
    await product.clickhouse<{ month: string }>("select toString(toYYYYMM(max(ts))) as month from events")
  )[0]!.month;
  await clickhouse.command({ query: `alter table events drop partition ${month}` });
  for (const table of ["rollups", "rollup_dimensions"]) await clickhouse.command({ query: `truncate table ${table}` });
  await clickhouse.command({
    query: "alter table receipts delete where cityHash64(event_id, {seed:UInt64}) % 100 = 0",
    query_params: { seed },
    clickhouse_settings: { mutations_sync: "2" },
  });
  await owner.query("set session_replication_role = replica");
  for (const table of ["product_sales", "conversions", "ledger_lines", "commissions"])
    await owner.query(`delete from ${table} where abs(hashtextextended(${table}::text, $1)) % 20 = 0`, [seed]);
  await owner.query("delete from app_events");
  const lost = differingTables(before, await stateHash(pool, clickhouse));
  expect(lost).toEqual(
    expect.arrayContaining([
      "clickhouse.events",
      "clickhouse.receipts",
      "clickhouse.rollups",
      "clickhouse.rollup_dimensions",
      "clickhouse.consent_changes",
      "postgres.product_sales",
      "postgres.app_events",
      "postgres.conversions",
    ]),
  );
  const redis = product.stack.env.REDIS_URL!;
  await flushed(redis);
  await replayed(6);
  expectSame(before, await state());
  expect(await hidden()).toBe(refused);
});

test("what was refused when it came is counted and leaves a replay ok; what is refused for the first time is an " +
  "error", async () => {
  const [known, fresh] = ["known", "fresh"].map((name) => ({
    ...{ event_id: `refused-${name}`, t: "purchase", ts: Date.now() - 60_000, cid: clientId, did: `device-${name}` },
    props: { order_id: `refused-${name}`, product_id: "cd", quantity: 1, revenue: "12.00", currency: "USD" },
  }));
  const refuses = (order: string) =>
    owner.query(`alter table product_sales add constraint refuses check (order_id <> '${order}') not valid`);
  const accepts = () => owner.query("alter table product_sales drop constraint refuses");
  await refuses("refused-known");
  expect((await post(product.ingestUrl, tokens[0]!, [known!, fresh!])).accepted).toBe(2);
  const letters = () => product.rows("select state from dead_letters where event_id is not null");
  await until("the refused sale is a letter", 60_000, async () => expect(await letters()).toHaveLength(1));
  expect(await replayed(6)).toMatchObject({ events_refused: 1 });
  await accepts();
  await refuses("refused-fresh");
  const report = (await (await called(6)).json()) as ReplayReport;
  expect(report).toMatchObject({
    ok: false,
    events_refused: 1,
    errors: [{ message: expect.stringContaining("refuses") }],
  });
  await accepts();
  expect((await product.tributary("dlq", "retry", "--code", "refused_by_store", "--yes").done).code).toBe(0);
  await until("the sale came through", 60_000, async () => expect(await letters()).toEqual([{ state: "reprocessed" }]));
  expect(await replayed(6)).toMatchObject({ events_refused: 0 });
}, 180_000);

test("calls of overlapping windows share one lane, and one that is killed midway goes on with true " +
  "counts", async () => {
  const before = await state();
  const records = await recordsInLog();
  // This table is locked for a while, so that the lane stops in the middle of its window.
  const holder = await owner.connect();
  await holder.query("begin; lock table conversions in access exclusive mode");
  const leaving = new AbortController();
  const left = called(6, leaving.signal).catch((error: Error) => error.name);
  const replayId = await until("a lane is midway", 30_000, async () => {
    const [newest] = await listReplays(pool, 1);
    const moved = (newest?.ranges ?? []).filter(
      (range) => (newest!.positions[placeOf(range)] ?? range.start) > range.start,
    );
    if (newest?.state !== "running" || !moved.some(({ topic }) => topic === "events.attributed"))
      throw new Error(`${newest?.state}`);
    return newest.replay_id;
  });
  leaving.abort();
  expect(await left).toBe("AbortError");
  const next = called(6);
  await until("the next call waits", 30_000, async () => {
    if ((await openReplays(pool)).length < 2) throw new Error("not yet");
  });
  const calls = [next, called(1), called(6)];
  const { was, is } = await product.replaced("keeper", 60_000);
  expect(is).not.toBe(was);
  await holder.query("rollback");
  holder.release();
  const reports = (await Promise.all((await Promise.all(calls)).map((response) => response.json()))) as ReplayReport[];
  // Each call gets the rows that were written before it a second time, and the others once.
  expect(new Set(reports.map(({ replay_id }) => replay_id)).size).toBe(1);
  const { replay_id, events_requeued, events_skipped_duplicate } = reports[0]!;
  expect(reports[0]).toMatchObject({ ok: true, hours: 6 });
  expect(replay_id).not.toBe(replayId);
  expect(events_skipped_duplicate).toBeGreaterThan(0);
  expect(events_requeued + events_skipped_duplicate).toBe(records);
  const first = (await readReplay(pool, replayId))!;
  expect(reportOf(first)).toMatchObject({ ok: true, hours: 6, events_requeued: records, events_skipped_duplicate: 0 });
  expect(first.attempts).toBeGreaterThan(1);
  expectSame(before, await state());
}, 120_000);

test("what an erased person did does not come back, and everything else does", async () => {
  const [{ did }] = (await product.clickhouse<{ did: string }>(
    "select did from events where t = 'purchase' order by did limit 1",
  )) as [{ did: string }];
  const records = (await product.read("events.attributed")).filter(
    ({ event }) => event().data.event.did === did,
  ).length;
  const ofConversions = (await product.read("conversions")).filter(({ event }) => event().data.customer === did).length;
  await suppress(pool, clientId, [{ kind: "did", subject: did }], {
    since: Date.now(),
    reason: "asked to be forgotten",
    actor: "test",
  });
  await clickhouse.command({ query: "truncate table events" });
  await clickhouse.command({ query: "truncate table rollups" });
  for (const table of ["product_sales", "app_events", "identity_edges"]) await owner.query(`delete from ${table}`);
  await owner.query("delete from conversions where customer = $1", [did]);
  const report = await replayed(6);
  expect(records).toBeGreaterThan(0);
  expect(report.events_suppressed).toBe(records + ofConversions);
  await settled();
  const [left] = await product.clickhouse<{ gone: string; there: string }>(
    `select countIf(did = '${did}') as gone, uniqExactIf(event_id, did <> '${did}') as there from events final`,
  );
  const others = new Set(
    (await product.read("events.attributed"))
      .map(({ event }) => event().data.event)
      .filter((event) => event.did !== did)
      .map(({ event_id }) => event_id),
  );
  expect([Number(left!.gone), Number(left!.there)]).toEqual([0, others.size]);
  for (const [table, column] of [
    ["product_sales", "did"],
    ["app_events", "did"],
    ["conversions", "customer"],
  ])
    expect(await product.rows(`select 1 from ${table} where ${column} = '${did}'`)).toEqual([]);
  // A second replay, and a rewind of the sink by hand, leave it the same: every writer checks the
  // list.
  const before = await state();
  expect((await replayed(1)).events_suppressed).toBe(records + ofConversions);
  expectSame(before, await state());
}, 120_000);

test("two replays under live traffic lose nothing, count nothing twice, and a third changes nothing", async () => {
  const journal = openJournal(join(product.stack.home, "live.journal"));
  const next = eventsOf(random, "live", clientId);
  const load = startLoad({ url: product.ingestUrl, tokens, next, random, journal, batch: 50, pauseMs: 150 });
  for (const hours of [6, 48]) await replayed(hours);
  const [last] = await listReplays(pool, 1);
  await load.stop();
  await settled();
  const held = await expectLaws(product, "live", journal, load.sent);
  expect(held.events).toBeGreaterThan(0);
  expect(reportOf(last!).ok).toBe(true);
  const before = await state();
  await replayed(48);
  expectSame(before, await state());
}, 120_000);

const flushed = async (url: string): Promise<void> => {
  const { Redis } = await import("ioredis");
  const redis = new Redis(url);
  expect(await redis.dbsize()).toBeGreaterThan(0);
  await redis.flushall();
  expect(await redis.dbsize()).toBe(0);
  redis.disconnect();
};
