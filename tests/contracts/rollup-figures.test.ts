// Law C7 for the figures of rollups beside counts: repeats of clicks, product lines, visitors and
// dimensions equal a fresh count of the stored events, and an update fills them for older rows.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { bind, cond, count, minor, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import { markOutdated, type SearchStart } from "../../modules/figures/rollups/outdated-hours.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { AnySink } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { attributed, clickCredit, dayMs, hourMs, noon, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const started = Date.now();
const analytics = pipeline.nodes.find((node) => node.name === "analytics") as AnySink;
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([clickhouse.close(), pool.end()]));

let tenants = 600_000_000 + (started % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;
const minuteMs = 60_000;

let batches = 0;
/** Writes rows and then the marks of their minutes, as the sink does. */
const store = async (...events: readonly EventAttributed[]): Promise<void> => {
  const rows = events.flatMap((data) => analytics.rows(recorded(topics.eventsAttributed, data)));
  const own = { tenants: [...new Set(events.map(({ event }) => event.client_id))], token: `${started}/f${++batches}` };
  await clickhouseStore(clickhouse).within(own, (write) => analytics.into.write(rows, write));
  const { of, into } = analytics.into.marks!;
  await postgresStore(pool).within(own, (write) => into.write(of(rows), write));
};
const settle = async (): Promise<void> => {
  await computeWaiting(pool, clickhouse, 50);
};
// Computes the marks of other suites first, so that these tests do not wait for them.
beforeAll(settle);

const click = (client_id: number, n: number, ts: number, over: object = {}, credit: object = {}): EventAttributed =>
  attributed(
    { client_id, event_id: uuid(n), t: "click", ts, ip: "203.0.113.9", ua: "Firefox", value_minor: null, ...over },
    { credit: clickCredit(credit) },
  );
/** [hour or day as UTC text, clicks, repeats] of each bucket, oldest first. */
const clicksBy = async (tenant: number, grain: string) => {
  const rows = await readRows(clickhouse, scopeOf(tenant), {
    from: "rollups",
    columns: {
      at: count("toUnixTimestamp(bucket)"),
      all: count("sum(clicks)"),
      again: count("sum(repeats)"),
    },
    where: [cond`grain = ${bind("String", grain)} and clicks > 0`],
    groupBy: ["at"],
    orderBy: ["at"],
  });
  return rows.map(({ at, all, again }) => [new Date(at * 1_000).toISOString().slice(5, 16), all, again]);
};

describe("a click", () => {
  test("repeats one of the same link, address and browser that lies less than an hour before it", async () => {
    const tenant = nextTenant();
    await store(
      click(tenant, 1, noon + 30 * minuteMs),
      click(tenant, 2, noon + 31 * minuteMs, { ip: "203.0.113.10" }),
      click(tenant, 3, noon + 31 * minuteMs, { ua: "Safari" }),
      click(tenant, 4, noon + 31 * minuteMs, {}, { link_id: 42 }),
      click(tenant, 5, noon + 31 * minuteMs, { ip: null }),
      click(tenant, 6, noon + 32 * minuteMs, { ip: null }),
      // One in the next clock hour, 59:59 later, and one in the hour after it, a whole hour later.
      click(tenant, 7, noon + 90 * minuteMs - 1_000),
      click(tenant, 8, noon + 150 * minuteMs - 1_000),
    );
    await settle();
    expect(await clicksBy(tenant, "hour")).toEqual([
      ["06-15T18:00", 6, 0],
      ["06-15T19:00", 1, 1],
      ["06-15T20:00", 1, 0],
    ]);
    expect(await clicksBy(tenant, "day")).toEqual([["06-15T06:00", 8, 1]]);
  });

  test("that comes late makes one of the hour behind it a repeat, and its loss takes that back", async () => {
    const tenant = nextTenant();
    await store(click(tenant, 2, noon + 70 * minuteMs));
    await settle();
    expect(await clicksBy(tenant, "hour")).toEqual([["06-15T19:00", 1, 0]]);
    await store(click(tenant, 1, noon + 40 * minuteMs));
    await settle();
    expect(await clicksBy(tenant, "hour")).toEqual([
      ["06-15T18:00", 1, 0],
      ["06-15T19:00", 1, 1],
    ]);
    // A second copy counts nowhere.
    await store({ ...click(tenant, 1, noon + 40 * minuteMs), version: 2, merged_into: uuid(9) });
    await settle();
    expect(await clicksBy(tenant, "hour")).toEqual([["06-15T19:00", 1, 0]]);
  });

  test("is no repeat of what the pixel saw on the page before it", async () => {
    const tenant = nextTenant();
    await store(
      click(tenant, 1, noon, { source: "pixel" }),
      click(tenant, 2, noon + minuteMs, { source: "pixel" }),
      click(tenant, 3, noon + 2 * minuteMs, { source: "batch" }),
    );
    await settle();
    expect(await clicksBy(tenant, "hour")).toEqual([["06-15T18:00", 3, 1]]);
  });

  test("before midnight is repeated by one of the next day of Mexico City", async () => {
    const tenant = nextTenant();
    const midnight = Date.UTC(2026, 5, 16, 6);
    await store(click(tenant, 1, midnight - 10 * minuteMs), click(tenant, 2, midnight + 10 * minuteMs));
    await settle();
    expect(await clicksBy(tenant, "day")).toEqual([
      ["06-15T06:00", 1, 0],
      ["06-16T06:00", 1, 1],
    ]);
  });

  test("repeats what a fresh count says, whatever comes in whatever order", async () => {
    const one = fc.record({
      at: fc.integer({ min: 0, max: 300 }),
      link_id: fc.constantFrom(41, 42),
      ip: fc.constantFrom("203.0.113.9", "203.0.113.10", null),
    });
    const repeatsOf = (
      clicks: readonly { readonly at: number; readonly link_id: number; readonly ip: string | null }[],
    ) => {
      const sorted = [...clicks].filter(({ ip }) => ip !== null).sort((a, b) => a.at - b.at);
      return sorted.filter((given, n) =>
        sorted.slice(0, n).some((b) => b.link_id === given.link_id && b.ip === given.ip && given.at - b.at < 60),
      ).length;
    };
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(one, { minLength: 1, maxLength: 6 }), { maxLength: 4 }), async (given) => {
        const tenant = nextTenant();
        let n = 0;
        for (const some of given) {
          await store(
            ...some.map(({ at, link_id, ip }) => click(tenant, ++n, noon + at * minuteMs, { ip }, { link_id })),
          );
          await settle();
        }
        const found = await clicksBy(tenant, "hour");
        const sum = found.reduce((all, [, , again]) => all + Number(again), 0);
        expect(sum).toBe(repeatsOf(given.flat()));
      }),
      { numRuns: 5 },
    );
  });
});

test("a sale counts in its product line, in every grain", async () => {
  const tenant = nextTenant();
  const sale = (n: number, product_line: string | null) =>
    attributed({ client_id: tenant, event_id: uuid(n), order_id: `o${n}`, product_line, value_minor: 10_00n });
  await store(sale(1, "MX"), sale(2, "VD"), sale(3, "MX"), sale(4, null));
  await settle();
  for (const grain of ["minute", "hour", "day"]) {
    const rows = await readRows(clickhouse, scopeOf(tenant), {
      from: "rollups",
      columns: { line: text("segment"), events: count("sum(events)"), revenue: minor("sum(revenue_minor)") },
      where: [cond`grain = ${bind("String", grain)} and events > 0`],
      groupBy: ["line"],
      orderBy: ["line"],
    });
    expect(rows, grain).toEqual([
      { line: "", events: 1, revenue: 10_00n },
      { line: "MX", events: 2, revenue: 20_00n },
      { line: "VD", events: 1, revenue: 10_00n },
    ]);
  }
});

const dimension = (tenant: number, name: string, grain = "day") =>
  readRows(clickhouse, scopeOf(tenant), {
    from: "rollup_dimensions",
    columns: { of: text("value"), events: count("sum(events)"), visitors: count("uniqCombined64Merge(14)(visitors)") },
    where: [cond`grain = ${bind("String", grain)} and dimension = ${bind("String", name)} and events > 0`],
    groupBy: ["of"],
    orderBy: ["of"],
  });

describe("a dimension", () => {
  const visit = (client_id: number, n: number, over: object = {}, enrichment: object = {}) =>
    attributed(
      {
        client_id,
        event_id: uuid(n),
        t: "page_view",
        value_minor: null,
        did: `d${n % 5}`,
        ts: noon + n * 1_000,
        ...over,
      },
      { enrichment: { browser: "Firefox", country: "MX", region: "CMX", ...enrichment } },
    );

  test("counts events and visitors by browser, region and channel, and a visitor of two days once", async () => {
    const tenant = nextTenant();
    await store(
      visit(tenant, 1, { url: "https://shop.example/a?utm_source=mail", ref: "https://mail.example/" }),
      visit(
        tenant,
        2,
        { url: "https://shop.example/b", ref: "https://www.google.com.mx/search?q=x" },
        { browser: "Safari" },
      ),
      visit(tenant, 3, { url: "https://shop.example/b", ref: "https://l.facebook.com/" }),
      visit(tenant, 4, { url: "https://shop.example/b", ref: "https://www.shop.example/a" }),
      visit(
        tenant,
        5,
        { url: "https://shop.example/b", ref: "https://blog.example/x" },
        { region: null, country: null },
      ),
      visit(tenant, 6, { ts: noon + dayMs, ref: null }),
      visit(tenant, 7, { click_id: "any" }),
    );
    await settle();
    const one = (of: string, events: number, visitors: number) => ({ of, events, visitors });
    expect(await dimension(tenant, "browser")).toEqual([one("Firefox", 6, 5), one("Safari", 1, 1)]);
    expect(await dimension(tenant, "region")).toEqual([one("", 1, 1), one("MX-CMX", 6, 4)]);
    expect((await dimension(tenant, "channel")).map(({ of, events }) => [of, events])).toEqual([
      ["campaign", 1],
      ["direct", 1],
      ["internal", 1],
      ["link", 1],
      ["referral", 1],
      ["search", 1],
      ["social", 1],
    ]);
    expect(await dimension(tenant, "all")).toEqual([one("", 7, 5)]);
    expect(await dimension(tenant, "all", "hour")).toEqual([one("", 7, 5)]);
  });

  test("counts no visitor without consent to analytics, and an event once for each of its codes", async () => {
    const tenant = nextTenant();
    const reasons = ["datacenter", "velocity"].map((code) => ({
      code,
      weight: 10,
      evidence: `{"quoted":"\\"${code}"}`,
    }));
    await store(
      attributed({ client_id: tenant, event_id: uuid(1), warnings: ["weak_did", "weak_did"] }, { fraud: { reasons } }),
      attributed(
        { client_id: tenant, event_id: uuid(2), order_id: "o2", did: "d2" },
        { enrichment: { consent: 0 }, fraud: { reasons: reasons.slice(0, 1) } },
      ),
    );
    await settle();
    expect(await dimension(tenant, "all")).toEqual([{ of: "", events: 2, visitors: 1 }]);
    const codes = async (name: string) => (await dimension(tenant, name)).map(({ of, events }) => [of, events]);
    expect(await codes("fraud_reason")).toEqual([
      ["datacenter", 2],
      ["velocity", 1],
    ]);
    expect(await codes("warning")).toEqual([["weak_did", 1]]);
    expect(await codes("credit_reason")).toEqual([["no_click", 2]]);
  });

  test("loses an event whose content moved, and a replay changes nothing", async () => {
    const tenant = nextTenant();
    const sale = { client_id: tenant, event_id: uuid(1) };
    await store(attributed(sale, { credit: clickCredit({ partner_id: 21 }) }));
    await settle();
    const of = (partner: number) =>
      readRows(clickhouse, scopeOf(tenant), {
        from: "rollup_dimensions",
        columns: {
          grain: text("grain"),
          events: count("sum(events)"),
          visitors: count("uniqCombined64Merge(14)(visitors)"),
        },
        where: [cond`dimension = 'all' and partner_id = ${bind("UInt32", partner)}`],
        groupBy: ["grain"],
        orderBy: ["grain"],
      });
    const both = (events: number) => ["hour", "day"].map((grain) => ({ grain, events, visitors: events }));
    expect(await of(21)).toEqual(both(1));
    const moved = attributed(sale, { version: 2, credit: clickCredit({ partner_id: 22 }) });
    for (let times = 0; times < 2; times += 1) {
      await store(moved);
      await settle();
      expect([await of(21), await of(22)]).toEqual([both(0), both(1)]);
    }
  });
});

test("hours that an older computation wrote are computed again, each once, the newest first", async () => {
  const tenant = nextTenant();
  const sale = (n: number, ts: number) =>
    attributed({ client_id: tenant, event_id: uuid(n), order_id: `o${n}`, ts, product_line: "MX" });
  await store(sale(1, noon), sale(2, noon - 5 * hourMs), sale(3, noon - 90 * dayMs));
  await settle();
  // Rows of the time before product lines were counted: without one, and without dimensions.
  const older = { query_params: { tenant }, clickhouse_settings: { mutations_sync: "1" as const } };
  const rewritten = "grain, bucket, event_type, source, partner_id, campaign_id, country, device, currency, '', events";
  await clickhouse.command({
    query: `insert into rollups (client_id, grain, bucket, event_type, source, partner_id, campaign_id, country, device,
      currency, segment, events, clicks, conversions, unattributed, revenue_minor, review, rejected, version, revision)
      select client_id, ${rewritten}, clicks, conversions, unattributed, revenue_minor, review, rejected, version, 1
      from rollups final where client_id = {tenant:UInt32}`,
    query_params: { tenant },
  });
  await clickhouse.command({
    query: "alter table rollups delete where client_id = {tenant:UInt32} and revision > 1",
    ...older,
  });
  await clickhouse.command({
    query: "alter table rollup_dimensions delete where client_id = {tenant:UInt32}",
    ...older,
  });
  const lines = () =>
    readRows(clickhouse, scopeOf(tenant), {
      from: "rollups",
      columns: { line: text("segment"), grain: text("grain"), events: count("sum(events)") },
      where: [cond`events > 0`],
      groupBy: ["line", "grain"],
      orderBy: ["grain"],
    });
  const sums = (line: string) => ["minute", "hour", "day"].map((grain) => ({ line, grain, events: 3 }));
  expect(await lines()).toEqual(sums(""));
  const searches: SearchStart[] = [];
  for (let behind: SearchStart | null = "from the newest"; behind !== null; ) {
    searches.push(behind);
    behind = await markOutdated(pool, clickhouse, behind, 1);
    await settle();
  }
  const own = searches.filter((one): one is readonly [number, number] => one[0] === tenant).map(([, hour]) => hour);
  expect(own).toEqual([noon, noon - 5 * hourMs, noon - 90 * dayMs].map((at) => at / 1_000));
  expect(await lines()).toEqual(sums("MX"));
  expect(await dimension(tenant, "all")).toEqual([{ of: "", events: 3, visitors: 1 }]);
  expect(await markOutdated(pool, clickhouse, "from the newest", 50)).toBeNull();
});
