// Quotas of events on a real Postgres: several processes spend one quota, it runs off with time,
// and each level of a rise is mailed once.
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { inWork, operatorAct } from "../../apps/cli/work.ts";
import { appLogins } from "../../infra/postgres/logins.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { announceUsage } from "../../modules/intake/quotas/announce.ts";
import { openQuotas, type QuotaSide, type Quotas, STRANGERS } from "../../modules/intake/quotas/quotas.ts";
import { type NewPlan, setPlan } from "../../modules/intake/quotas/set-plan.ts";
import { readPlans, readUsage } from "../../modules/intake/quotas/usage.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 6 });
});
afterAll(() => database.drop());
const opened: Quotas[] = [];
beforeEach(async () => {
  await Promise.all(opened.splice(0).map(({ close }) => close()));
  await database.adminPool.query("truncate intake_usage; truncate mails");
  // A day's quota of 2,400 events, a quarter of which may come at once.
  await set("standard", { events_a_day: 2_400, bytes_a_day: 24_000_000, burst_hours: 6 });
});

const set = (plan: string, change: object, how?: NewPlan) =>
  inWork(pool, operatorAct("ops@cli"), (work) => setPlan(work, { plan, ...change }, how));
const open = (): Quotas => {
  const quotas = openQuotas(pool, {
    role: "tributary_edge",
    onError: (error) => {
      failed = error;
    },
  });
  opened.push(quotas);
  return quotas;
};
let failed: unknown;
const views = (events: number, over: { clientId?: number; side?: QuotaSide; bytes?: number } = {}) => ({
  ...{ clientId: 7, side: "open" as const, events, bytes: 0, movesMoney: false },
  ...over,
});
const sales = (events: number, over: Parameters<typeof views>[1] = {}) => ({
  ...views(events, over),
  movesMoney: true,
});
const usage = () => transaction(pool, null, readUsage);
const passHours = (hours: number) =>
  database.adminPool.query(`update intake_usage set measured_at = measured_at - interval '${hours} hours'`);

test("two processes spend one quota: page views are refused at 90 %, purchases at 100 %", async () => {
  const [one, other] = [open(), open()];
  expect([one.spend(views(300)), other.spend(views(250))]).toEqual([true, true]);
  await one.flush();
  await other.flush();
  expect([other.spend(views(1)), other.spend(sales(40))]).toEqual([false, true]);
  await other.flush();
  // This process knows of the other's 290 events from its next write on.
  expect(one.spend(sales(9))).toBe(true);
  await one.flush();
  expect([one.spend(views(1)), one.spend(sales(2)), one.spend(sales(1))]).toEqual([false, true, false]);
  await one.flush();
  expect(await usage()).toMatchObject([{ client_id: 7, side: "open", plan: "standard", refused: 3 }]);
  expect(failed).toBeUndefined();
});

test("bytes count as events do, and each side and client has a quota of its own", async () => {
  const quotas = open();
  quotas.spend(views(1, { bytes: 6_100_000 }));
  await quotas.flush();
  expect([
    quotas.spend(sales(1)),
    quotas.spend(sales(1, { side: "signed" })),
    quotas.spend(views(1, { clientId: 8 })),
  ]).toEqual([false, true, true]);
});

test("what is spent runs off by a day's quota a day, in the process and in the store", async () => {
  let now = 0;
  const quotas = openQuotas(pool, { role: "tributary_edge", now: () => now });
  opened.push(quotas);
  quotas.spend(sales(600));
  await quotas.flush();
  expect(quotas.spend(sales(1))).toBe(false);
  now += 3_600_000;
  expect([quotas.spend(sales(99)), quotas.spend(sales(2)), quotas.spend(sales(1))]).toEqual([true, true, false]);
  await passHours(3);
  const after = open();
  after.spend(views(0));
  await after.flush();
  const [row] = (await database.adminPool.query("select events from intake_usage")).rows;
  expect(Math.round(row.events)).toBe(300);
});

test("a plan that is raised acts with the next write, also when a client gets another plan", async () => {
  const { idOf } = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: "lamps", name: "Lamps", plan: "small" }],
  });
  const clientId = idOf("clients", -1);
  const quotas = open();
  quotas.spend(sales(601, { clientId }));
  await quotas.flush();
  expect(quotas.spend(sales(1, { clientId }))).toBe(false);
  // No row is that of this plan yet, so the usual one holds.
  await set("small", { events_a_day: 24_000 }, { isNew: true });
  await quotas.flush();
  expect(quotas.spend(sales(1, { clientId }))).toBe(true);
  expect((await usage()).filter(({ slug }) => slug === "lamps")).toMatchObject([
    { plan: "small", most_events: 6_000, most_bytes: 6_000_000 },
  ]);
  await writeReference(pool, "test", { clients: [{ client_id: clientId, plan: "enterprise" }] });
  expect((await usage()).find(({ slug }) => slug === "lamps")).toMatchObject({ most_events: 125_000_000 });
});

test("a plan that is raised acts in an idle process too, before its next request", async () => {
  let now = 0;
  const idle = openQuotas(pool, { role: "tributary_edge", now: () => now });
  opened.push(idle);
  idle.spend(sales(601));
  await idle.flush();
  expect(idle.spend(sales(1))).toBe(false);
  await idle.flush();
  await set("standard", { events_a_day: 24_000 });
  now += 12 * 60_000;
  // Its own clock asks every two seconds, and no request does.
  await idle.flush();
  expect([idle.spend(views(1)), idle.spend(sales(1))]).toEqual([true, true]);
});

test("a process without a spent quota asks nothing while it is idle", async () => {
  const idle = open();
  idle.spend(sales(10));
  await idle.flush();
  await database.adminPool.query("alter table intake_usage rename to away");
  await idle.flush();
  await database.adminPool.query("alter table away rename to intake_usage");
  expect(failed).toBeUndefined();
});

test("while Postgres is away each process counts alone, and writes it when it is back", async () => {
  const quotas = open();
  quotas.spend(sales(500));
  await quotas.flush();
  await database.adminPool.query("alter table intake_usage rename to away");
  quotas.spend(sales(90));
  await quotas.flush();
  expect([failed !== undefined, quotas.spend(sales(20)), quotas.spend(sales(1))]).toEqual([true, true, false]);
  await database.adminPool.query("alter table away rename to intake_usage");
  await quotas.flush();
  const [row] = (await database.adminPool.query("select events, refused::int from intake_usage")).rows;
  expect([Math.round(row.events), row.refused]).toEqual([610, 1]);
  failed = undefined;
});

test.each(["ingest", "links", "pixel"] as const)("the login of %s counts with its own rights", async (app) => {
  const own = new pg.Pool({ connectionString: database.adminUrl, max: 1 });
  own.on("connect", (client) => void client.query(`set session authorization ${appLogins[app].role}`));
  const quotas = openQuotas(own, { onError: (error) => expect(error).toBeUndefined() });
  quotas.spend(sales(610));
  await quotas.flush();
  expect([quotas.spend(sales(1)), await usage()]).toMatchObject([false, [{ client_id: 7, side: "open" }]]);
  await quotas.close();
  await own.end();
});

test("strangers have a plan of their own", async () => {
  const quotas = open();
  quotas.spend(sales(1, { clientId: STRANGERS }));
  await quotas.flush();
  expect(await usage()).toMatchObject([{ client_id: 0, slug: null, plan: "strangers", most_events: 250_000 }]);
});

test("80 and 100 % are mailed once a rise to admins, whichever keeper looks", async () => {
  await database.adminPool.query(`insert into users (email, name, role, locale)
    values ('ana@shop.example', 'Ana', 'admin', 'en') on conflict do nothing`);
  const quotas = open();
  const mailed = async () => {
    await Promise.all([announceUsage(pool), announceUsage(pool)]);
    const { rows } = await database.adminPool.query(
      "select facts from mails where recipient = 'ana@shop.example' order by mail_id",
    );
    return rows.map(({ facts }) => facts.percent);
  };
  quotas.spend(sales(470));
  await quotas.flush();
  expect(await mailed()).toEqual([]);
  quotas.spend(sales(20));
  await quotas.flush();
  expect([await mailed(), await mailed()]).toEqual([[80], [80]]);
  quotas.spend(sales(120));
  await quotas.flush();
  expect([await mailed(), await mailed()]).toEqual([
    [80, 100],
    [80, 100],
  ]);
  await passHours(3);
  expect(await mailed()).toEqual([80, 100]);
  quotas.spend(views(0));
  await quotas.flush();
  quotas.spend(sales(200));
  await quotas.flush();
  expect(await mailed()).toEqual([80, 100, 80]);
});

test("a plan out of its bounds is refused with the field", async () => {
  await expect(set("standard", { burst_hours: 25 })).rejects.toMatchObject({ refusals: [{ path: "/burst_hours" }] });
  await expect(set("standard", { events_a_day: 0 })).rejects.toMatchObject({ refusals: [{ path: "/events_a_day" }] });
  await expect(set("", {}, { isNew: true })).rejects.toMatchObject({ refusals: [{ path: "/plan" }] });
  expect((await transaction(pool, null, readPlans)).map(({ plan }) => plan)).toEqual(
    expect.arrayContaining(["standard", "enterprise", "strangers"]),
  );
});

test("a name that no plan has makes none unless it is said to be new, and the error names the plans", async () => {
  const events_a_day = 5;
  await expect(set("enterprize", { events_a_day })).rejects.toMatchObject({
    refusals: [{ path: "/plan", code: "unknown_plan", message: expect.stringMatching(/--new.*standard.*enterprise/) }],
  });
  const plans = async () => (await transaction(pool, null, readPlans)).map(({ plan }) => plan);
  expect(await plans()).not.toContain("enterprize");
  await set("festival", { events_a_day }, { isNew: true });
  expect(await plans()).toContain("festival");
  await set("festival", { events_a_day: 6 });
  await expect(set("festival", { events_a_day }, { isNew: true })).rejects.toMatchObject({
    refusals: [{ path: "/plan", code: "already_there" }],
  });
});
