// Hours are computed in a turn of their own: a waiting hour is not lost, and busy hours rest.
import { afterAll, beforeAll, expect, test } from "vitest";
import { rollupHours, rollups } from "../../apps/keeper/schedules/rollups.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { count, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import {
  type RollupHour,
  takeHours,
  takeMarks,
  waitingHours,
  waitingMarks,
  waitingRollups,
} from "../../modules/figures/rollups/rollup-marks.ts";
import { eventsOf } from "../../modules/figures/rollups/rollup-reads.ts";
import { computeHours, computeMinutes } from "../../modules/figures/rollups/rollups.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events as eventsTable } from "../../sinks/analytics/table.ts";
import { minutesOf, rollupMarks } from "../../sinks/rollup-marks/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, hourMs, noon, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([clickhouse.close(), pool.end()]));
// Computes the marks of other suites first, so that these tests do not wait for them.
beforeAll(() => computeWaiting(pool, clickhouse, 50));

const HOUR = noon - (noon % hourMs);
let tenants = 700_000_000 + (Date.now() % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
let ids = 0;
const click = (client_id: number, ts: number): EventAttributed =>
  attributed(
    {
      client_id,
      event_id: `00000000-0000-8000-8000-${(++ids).toString(16).padStart(12, "0")}`,
      t: "click",
      ts,
      ip: "203.0.113.9",
      ua: "Firefox",
      value_minor: null,
    },
    { credit: clickCredit({}) },
  );
/** Writes rows and then the marks of their minutes, as the sink does. */
const store = async (...events: readonly EventAttributed[]): Promise<void> => {
  const rows = events.flatMap((data) => eventRows(recorded(topics.eventsAttributed, data)));
  await clickhouseStore(clickhouse).insert(eventsTable, rows, `hours/${ids}`);
  const tenants = [...new Set(events.map(({ event }) => event.client_id))];
  await postgresStore(pool).within({ tenants, token: "" }, (write) => rollupMarks.write(minutesOf(rows), write));
};
const minutes = () => takeMarks(pool, 50, (marks) => computeMinutes(clickhouse, marks));
const hours = () => takeHours(pool, { most: 50 }, (given) => computeHours(clickhouse, given));
/** Clicks and repeats of the hour, and the number of events in its dimensions. */
const hourOf = async (tenant: number) => {
  const [counted] = await readRows(clickhouse, scopeOf(tenant), {
    from: "rollups",
    columns: { grain: text("grain"), clicks: count("sum(clicks)"), repeats: count("sum(repeats)") },
    where: [{ expression: "grain = 'hour'", values: [] }],
    groupBy: ["grain"],
  });
  const [all] = await readRows(clickhouse, scopeOf(tenant), {
    from: "rollup_dimensions",
    columns: { dimension: text("dimension"), events: count("sum(events)") },
    where: [{ expression: "grain = 'hour' and dimension = 'all'", values: [] }],
    groupBy: ["dimension"],
  });
  return [counted?.clicks ?? 0, counted?.repeats ?? 0, all?.events ?? 0];
};

test("minutes are counted before their hour, and the repeats of the hour stay until it is counted", async () => {
  const tenant = nextTenant();
  await store(click(tenant, HOUR), click(tenant, HOUR + 60_000));
  await minutes();
  expect(await hourOf(tenant)).toEqual([2, 0, 0]);
  expect((await waitingMarks(pool)).count).toBe(0);
  expect((await waitingRollups(pool)).count).toBe(1);
  await hours();
  expect(await hourOf(tenant)).toEqual([2, 1, 2]);
  await store(click(tenant, HOUR + 120_000));
  await minutes();
  expect(await hourOf(tenant)).toEqual([3, 1, 2]);
  await hours();
  expect(await hourOf(tenant)).toEqual([3, 2, 3]);
  expect(await waitingRollups(pool)).toEqual({ count: 0, seconds: 0 });
});

test("an hour waits since its oldest minute did, and stays when a minute is touched while it is counted", async () => {
  const tenant = nextTenant();
  await store(click(tenant, HOUR));
  await transaction(
    pool,
    null,
    (tx) =>
      tx.query("update rollup_marks set marked_at = marked_at - interval '1 hour' where client_id = $1", [tenant]),
    { role: "tributary_keeper" },
  );
  await minutes();
  expect((await waitingHours(pool)).seconds).toBeGreaterThan(3_600);
  const sequences: bigint[] = [];
  const keep = (given: readonly RollupHour[]): void => {
    for (const one of given) if (one.client_id === tenant) sequences.push(one.sequence);
  };
  await takeHours(pool, { most: 50 }, async (given) => {
    keep(given);
    await store(click(tenant, HOUR + 1_000));
    await minutes();
    expect(await takeHours(pool, { most: 50 }, async () => undefined), "another process").toBe("busy");
  });
  expect(await waitingHours(pool)).toMatchObject({ count: 1 });
  expect((await waitingHours(pool)).seconds, "it was counted a moment ago").toBeLessThan(60);
  await takeHours(pool, { most: 50 }, async (given) => keep(given));
  expect(sequences).toHaveLength(2);
  expect(sequences[1]).toBeGreaterThan(sequences[0]!);
});

test("an hour that rests is left to a later turn, and others are taken", async () => {
  const [busy, calm] = [nextTenant(), nextTenant()];
  await store(click(busy, HOUR), click(calm, HOUR));
  await minutes();
  const taken: number[] = [];
  const resting = [{ client_id: busy, hour: HOUR }];
  expect(await waitingHours(pool, resting), "no backlog").toMatchObject({ count: 1 });
  await takeHours(pool, { most: 50, resting }, async (given) => {
    await computeHours(clickhouse, given);
    taken.push(...given.map(({ client_id }) => client_id));
    expect(await eventsOf(clickhouse, given)).toEqual([{ client_id: calm, hour: HOUR, events: 1 }]);
  });
  expect(taken).toEqual([calm]);
  await hours();
  expect(await hourOf(busy)).toEqual([1, 0, 1]);
});

test("the keeper counts an hour of any number of events", async () => {
  const tenant = nextTenant();
  for (let n = 1; n <= 3; n++) {
    await store(click(tenant, HOUR + n));
    await minutes();
    // A new keeper each time, because one that has counted the hour lets it rest.
    expect(await rollupHours(pool, clickhouse).work(() => false)).toBe(1);
    expect(await hourOf(tenant)).toEqual([n, n - 1, n]);
  }
});

test("minutes rest for twice as long behind an hour of more than a million events", async () => {
  const tenant = nextTenant();
  const minutesOfKeeper = rollups(pool, clickhouse);
  await store(click(tenant, HOUR));
  expect(await minutesOfKeeper.work(() => false)).toBe(1);
  expect(minutesOfKeeper.longestRestMs!()).toBe(20_000);
  // Another minute of the hour, with a count of a million.
  await clickhouse.command({
    query: `insert into rollups (client_id, grain, bucket, event_type, events, version)
      values (${tenant}, 'minute', fromUnixTimestamp(${(HOUR + 60_000) / 1_000}), 'page_view', 1000000, 1)`,
  });
  await store(click(tenant, HOUR));
  await minutesOfKeeper.work(() => false);
  expect(minutesOfKeeper.longestRestMs!()).toBe(40_000);
  await store(click(nextTenant(), HOUR));
  await minutesOfKeeper.work(() => false);
  expect(minutesOfKeeper.longestRestMs!(), "of what was counted last").toBe(20_000);
  await hours();
});

test("a count of hours that fails leaves all of them waiting", async () => {
  const tenant = nextTenant();
  await store(click(tenant, HOUR));
  await minutes();
  const failing = takeHours(pool, { most: 50 }, async () => {
    throw new Error("the store is away");
  });
  await expect(failing).rejects.toThrow("the store is away");
  expect((await waitingHours(pool)).count).toBe(1);
  await hours();
  expect(await hourOf(tenant)).toEqual([1, 0, 1]);
});
