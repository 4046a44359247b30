// The steps that make the tables of ClickHouse can be repeated and resumed but never edited, and
// which rows the view `events_current` leaves out.
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digitsOf, toDecimal } from "../../domain/money.ts";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate, status } from "../../infra/clickhouse/migrate.ts";
import { onCluster } from "../../infra/clickhouse/on-cluster.ts";
import { count, readRows, scopeOf } from "../../infra/clickhouse/query.ts";
import { migrationsIn } from "../../infra/postgres/migrate.ts";
import { migrateAll, migrationStatus } from "../../modules/running/installation/steps.ts";
import { eventCounts, eventVersions, freshness, latestEvents } from "../../sinks/analytics/reads.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, enriched, noon, received, recorded } from "../support/builders.ts";
import { freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

const url = new URL(sharedStack().env.CLICKHOUSE_URL!);
const database = `migrations_${process.pid}_${Date.now()}`;
const folder = mkdtempSync(join(tmpdir(), "steps-"));
let root: Clickhouse;
let clickhouse: Clickhouse;
beforeAll(async () => {
  root = openClickhouse(url.href);
  await root.command({ query: `create database ${database}` });
  clickhouse = openClickhouse(Object.assign(new URL(url), { pathname: `/${database}` }).href);
});
afterAll(async () => {
  await root.command({ query: `drop database ${database}` });
  await Promise.all([root.close(), clickhouse.close()]);
  rmSync(folder, { recursive: true });
});

test("a run that failed goes on with the step that failed, and says which and why", async () => {
  const step = (name: string, text: string) => writeFileSync(join(folder, name), text);
  step("001_a.sql", "create table if not exists a (n UInt8) engine = MergeTree order by n");
  step("002_b.sql", "create table if not exists b (n Nonsense) engine = MergeTree order by n");
  step("003_c.sql", "create or replace view c as select * from b");
  await expect(migrate(clickhouse, { folder })).rejects.toThrow(/002_b\.sql: .*Nonsense/s);
  expect(await status(clickhouse, folder)).toMatchObject({
    applied: [{ number: 1 }],
    pending: ["002_b.sql", "003_c.sql"],
    problems: [],
  });
  step("002_b.sql", "create table if not exists b (n UInt8) engine = MergeTree order by n");
  expect(await migrate(clickhouse, { folder })).toEqual({ applied: ["002_b.sql", "003_c.sql"] });
  expect(await migrate(clickhouse, { folder })).toEqual({ applied: [] });
  step("001_a.sql", "create table if not exists a (n UInt16) engine = MergeTree order by n");
  await expect(migrate(clickhouse, { folder })).rejects.toThrow("001_a.sql was changed after it had been applied");
  rmSync(join(folder, "003_c.sql"));
  expect((await status(clickhouse, folder)).problems).toHaveLength(2);
  await clickhouse.command({ query: "drop table migrations" });
});

test("a step that ran but was not noted is repeated without harm", async () => {
  await migrate(clickhouse);
  await clickhouse.command({ query: "drop table migrations" });
  const { applied } = await migrate(clickhouse);
  expect(applied.length).toBeGreaterThan(1);
  expect(await status(clickhouse)).toMatchObject({ pending: [], problems: [] });
});

test("for a cluster every table is a replicated one on all its servers, by the parser of the engine", async () => {
  const parsed = async (text: string): Promise<string> => {
    const query = "select formatQuerySingleLine({text:String}) as text";
    const rows = await clickhouse.query({ query, query_params: { text }, format: "JSONEachRow" });
    return (await rows.json<{ text: string }>())[0]!.text;
  };
  for (const { file, text } of migrationsIn(files)) {
    const [usual, everywhere] = [await parsed(text), await parsed(onCluster(text, "{cluster}"))];
    if (usual.startsWith("INSERT")) expect(everywhere, file).toBe(usual);
    else expect(everywhere, file).toContain(" ON CLUSTER `{cluster}`");
    expect(everywhere, file).not.toMatch(/ENGINE = (?!Replicated)\w*MergeTree|non_replicated/);
    // Nothing else differs.
    const back = everywhere.replace(" ON CLUSTER `{cluster}`", "").replace("ENGINE = Replicated", "ENGINE = ");
    expect(back.replace("replicated_dedup", "non_replicated_dedup"), file).toBe(usual);
  }
});

test("tables of one server do not become those of a cluster", async () => {
  await expect(migrate(clickhouse, { cluster: "main" })).rejects.toThrow(
    "the tables of this ClickHouse are not replicated: --cluster main is for a database without tables",
  );
  expect(() => onCluster("optimize table events", "main")).toThrow("no form for a cluster is known");
  expect(() => onCluster("drop table if exists a", "a' b")).toThrow("is no name of a cluster");
});

const files = new URL("../../migrations/clickhouse/", import.meta.url).pathname;
const shipped = () => readdirSync(files).sort();

test(
  "rows that were stored before the table moved are there afterwards, and a later reading of them " + "stands",
  async () => {
    const older = `older_${database}`;
    const before = mkdtempSync(join(tmpdir(), "steps-"));
    for (const file of shipped().filter((name) => name < "120")) copyFileSync(join(files, file), join(before, file));
    await root.command({ query: `create database ${older}` });
    const there = openClickhouse(Object.assign(new URL(url), { pathname: `/${older}` }).href);
    try {
      await migrate(there, { folder: before });
      const event_id = "00000000-0000-8000-8000-000000000001";
      await there.command({
        query:
          `insert into events (client_id, event_id, ts, version, did) values (1, '${event_id}', now64(3), ` +
          "1, 'before')",
      });
      await migrate(there);
      const dids = async () =>
        (
          await (
            await there.query({ query: "select did from events final", format: "JSONCompactEachRow" })
          ).json<[string]>()
        ).flat();
      expect(await dids()).toEqual(["before"]);
      await there.command({
        query:
          "insert into events (client_id, event_id, ts, version, did, log_offset) select client_id, " +
          "event_id, ts, version, 'after', 5 from events",
      });
      expect(await dids()).toEqual(["after"]);
    } finally {
      await there.close();
      await root.command({ query: `drop database ${older}` });
      rmSync(before, { recursive: true });
    }
  },
);

test("a column that is added shows in every view, also where the run died before it was noted", async () => {
  const wider = `wider_${database}`;
  const later = mkdtempSync(join(tmpdir(), "steps-"));
  for (const file of shipped()) copyFileSync(join(files, file), join(later, file));
  writeFileSync(
    join(later, "900_payment_method.sql"),
    "alter table events add column if not exists payment_method Nullable(String)",
  );
  await root.command({ query: `create database ${wider}` });
  const there = openClickhouse(Object.assign(new URL(url), { pathname: `/${wider}` }).href);
  const methodsIn = async (view: string) =>
    (await there.query({ query: `select payment_method from ${view}`, format: "JSONCompactEachRow" })).json<[string]>();
  try {
    await migrate(there);
    expect(await migrate(there, { folder: later })).toEqual({ applied: ["900_payment_method.sql"] });
    await there.command({
      query:
        "insert into events (client_id, event_id, ts, version, consent, payment_method) values " +
        "(1, '00000000-0000-8000-8000-000000000001', now64(3), 1, 255, 'oxxo')",
    });
    for (const view of ["events_decided", "events_current", "event_versions"])
      expect(await methodsIn(view), view).toEqual([["oxxo"]]);
    // The state after a run that died between adding the column and recording it.
    await there.command({ query: "create or replace view event_versions as select client_id, did from events" });
    await there.command({
      query: "alter table migrations delete where number = 900",
      clickhouse_settings: { mutations_sync: "1" },
    });
    expect(await migrate(there, { folder: later })).toEqual({ applied: ["900_payment_method.sql"] });
    expect(await methodsIn("event_versions")).toEqual([["oxxo"]]);
  } finally {
    await there.close();
    await root.command({ query: `drop database ${wider}` });
    rmSync(later, { recursive: true });
  }
});

test("two who migrate at once take turns: each step is done once, and the rows stay", async () => {
  const twice = `twice_${database}`;
  const before = mkdtempSync(join(tmpdir(), "steps-"));
  for (const file of shipped().filter((name) => name < "120")) copyFileSync(join(files, file), join(before, file));
  const postgres = await freshDatabase();
  await root.command({ query: `create database ${twice}` });
  const clickhouseUrl = Object.assign(new URL(url), { pathname: `/${twice}` }).href;
  const there = openClickhouse(clickhouseUrl);
  try {
    await migrate(there, { folder: before });
    await there.command({
      query:
        "insert into events (client_id, event_id, ts, version) select 1, generateUUIDv4(), now64(3), 1 " +
        "from numbers(1000)",
    });
    const access = { adminUrl: postgres.adminUrl, appUrl: postgres.appUrl, clickhouseUrl };
    const moving = shipped().filter((name) => name >= "120");
    expect((await migrationStatus(access)).pending).toEqual(moving.map((file) => `clickhouse/${file}`));
    const lines: string[] = [];
    await Promise.all([1, 2].map(() => migrateAll(access, (line) => void lines.push(line))));
    expect(lines).toEqual(moving.map((file) => `applied ${file}`));
    expect(await migrationStatus(access)).toMatchObject({ pending: [], problems: [] });
    const rows = await there.query({ query: "select count() from events", format: "JSONCompactEachRow" });
    expect(await rows.json()).toEqual([["1000"]]);
  } finally {
    await there.close();
    await root.command({ query: `drop database ${twice}` });
    await postgres.drop();
    rmSync(before, { recursive: true });
  }
});

const currencies = "BIF CLP JPY XAF KWD TND CLF UYW MXN USD EUR".split(" ");

test("amounts in the analytics store read as everywhere else, to the limits of 64 bits", async () => {
  const amounts = [0n, 1n, -1n, 12_345n, 9_223_372_036_854_775_807n, -9_223_372_036_854_775_808n];
  const all = currencies.flatMap((currency) => amounts.map((value_minor) => ({ currency, value_minor })));
  const rows = all.flatMap((money, n) =>
    eventRows(
      recorded(
        topics.eventsAttributed,
        attributed({ client_id: 1, event_id: `00000000-0000-8000-8000-${String(n).padStart(12, "0")}`, ...money }),
      ),
    ),
  );
  await clickhouseStore(clickhouse).insert(events, rows, "amounts");
  const result = await clickhouse.query({
    query: "select value, value_minor, currency from events_current where client_id = 1 order by event_id",
    format: "JSONEachRow",
  });
  const stored = await result.json<{ value: string; value_minor: string; currency: string }>();
  const padded = (value: string) => value.replace(/\.?0*$/, (zeros) => (value.includes(".") ? "" : zeros));
  expect(stored.map(({ value, ...rest }) => ({ ...rest, value: padded(value) }))).toEqual(
    all.map(({ currency, value_minor }) => ({
      currency,
      value_minor: String(value_minor),
      value: padded(toDecimal(value_minor, currency)),
    })),
  );
});

test("the store counts the decimals of every known currency as money does", async () => {
  const codes = Array.from({ length: 26 ** 3 }, (_, n) =>
    String.fromCharCode(65 + Math.floor(n / 676), 65 + (Math.floor(n / 26) % 26), 65 + (n % 26)),
  );
  const known = codes.filter((code) => digitsOf(code) !== undefined);
  const result = await clickhouse.query({
    query:
      "select default_expression as expression from system.columns where database = currentDatabase() " +
      "and table = 'events' and name = 'value'",
    format: "JSONEachRow",
  });
  const { expression } = (await result.json<{ expression: string }>())[0]!;
  const divisors = await clickhouse.query({
    query:
      `select ${expression.replaceAll("value_minor", "1000000")} as value from (select ` +
      "arrayJoin({codes:Array(String)}) as currency)",
    query_params: { codes: known },
    format: "JSONCompactEachRow",
  });
  const counted = (await divisors.json<[string]>()).map(([value]) => 6 - Math.round(Math.log10(Number(value))));
  expect(Object.fromEntries(known.map((code, n) => [code, counted[n]]))).toEqual(
    Object.fromEntries(known.map((code) => [code, digitsOf(code)])),
  );
});

test("what is current leaves out copies, old versions, and what must not be counted without consent", async () => {
  const id = (n: number) => `00000000-0000-8000-8000-${String(n).padStart(12, "0")}`;
  const client_id = 2;
  const silent = enriched({}, { consent: 0xfe }).enrichment;
  const given = [
    attributed({ client_id, event_id: id(1) }),
    attributed({ client_id, event_id: id(1) }, { version: 2, credit: clickCredit() }),
    attributed({ client_id, event_id: id(2) }, { merged_into: id(1) }),
    attributed(
      { client_id, event_id: id(3), t: "lead_submit", url: "https://shop.example/lead", ip: "192.0.2.1", ua: "x" },
      { enrichment: silent },
    ),
    { ...attributed({}, { enrichment: silent }), event: received({ client_id, event_id: id(4) }) },
    { ...attributed(), event: received({ client_id, event_id: id(5), t: "custom", custom_name: "quiz_done" }) },
  ];
  const before = Date.now();
  const rows = given.flatMap((data, n) => eventRows(recorded(topics.eventsAttributed, data, { receivedAt: noon + n })));
  expect(rows.map((row) => row.event_id)).toEqual([id(1), id(1), id(2), id(3), id(5)]);
  await clickhouseStore(clickhouse).insert(events, rows, "current");

  const scope = scopeOf(client_id);
  expect(await eventCounts(clickhouse, scope)).toEqual([{ client_id, events: 3, attributed: 1 }]);
  expect((await latestEvents(clickhouse, scope, 2)).map(({ event_id, t }) => ({ event_id, t }))).toEqual([
    { event_id: id(3), t: "lead_submit" },
    { event_id: id(5), t: "quiz_done" },
  ]);
  expect((await eventVersions(clickhouse, scope, id(1)))[0]).toMatchObject({
    version: 2,
    credit_status: "attributed",
    value_minor: 100_00n,
    merged_into: null,
  });
  expect(await eventVersions(clickhouse, scopeOf(3), id(1))).toEqual([]);
  // The specification's name of the column, in the table and in its view.
  for (const table of ["events final", "events_current"]) {
    const versions = await clickhouse.query({
      query: `select _version, version from ${table} where client_id = 2 and event_id = '${id(1)}'`,
      format: "JSONCompactEachRow",
    });
    expect(await versions.json()).toEqual([[2, 2]]);
  }
  // If a listed name could hide the column, every tenant's rows would come through.
  const disguised = { from: "events", columns: { client_id: count("3"), version: count("version") } } as const;
  expect(await readRows(clickhouse, scopeOf(3), disguised)).toEqual([]);
  // Two versions in one insert are two rows until a merge drops the older one.
  const { rows: stored, last_received_at } = await freshness(clickhouse, scope, before - 60_000);
  expect([4, 5]).toContain(stored);
  expect(last_received_at).toBe(noon + 5);
  expect(await freshness(clickhouse, scopeOf(3), 0)).toEqual({
    rows: 0,
    last_received_at: null,
    p50_ms: null,
    p99_ms: null,
  });
  const lead = await clickhouse.query({
    query: `select url, ref, ip, ua from events where event_id = '${id(3)}' and client_id = 2`,
    format: "JSONEachRow",
  });
  expect(await lead.json()).toEqual([{ url: null, ref: null, ip: null, ua: null }]);
});
