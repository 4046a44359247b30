// A ClickHouse that comes back without its data says so, and what brings them back.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate } from "../../infra/clickhouse/migrate.ts";
import type { OlderRecords } from "../../modules/running/repair/lost-data.ts";
import { openProbes } from "../../modules/running/repair/probes.ts";
import { sharedStack } from "../support/shared-stack.ts";

const url = new URL(sharedStack().env.CLICKHOUSE_URL!);
const database = `emptied_${process.pid}_${Date.now()}`;
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
});

type RecordReader = () => Promise<readonly OlderRecords[]>;
/** What the probe says while `read` records of the log are stored; null: all is well. */
const said = (read: RecordReader, alerted: string | null = null): Promise<string | null> => {
  const nothing = null as never;
  const { analytics_store: look } = openProbes({
    ...{ instance: "one", topicPrefix: "", clickhouse, redis: nothing, objects: nothing, pool: nothing },
    ...{ syncLag: nothing, eventLog: nothing, eventProcessing: nothing, readIntoClickhouse: read },
  });
  return look(alerted).then(
    () => null,
    (error: Error) => error.message,
  );
};
/** A log that holds 700 records, of which 600 were appended more than a day ago. */
const log: RecordReader = async () => [
  { ageSec: 0, records: 700 },
  { ageSec: 600, records: 695 },
  { ageSec: 3_600, records: 690 },
  { ageSec: 86_400, records: 600 },
];
const empty: RecordReader = async () => [{ ageSec: 0, records: 0 }];
const away: RecordReader = () => Promise.reject(new Error("the log is away"));

/** Stores events that were received `hours` ago, of a sender whose clock is ahead by minutes. */
const store = (count: number, hours: number, ahead = 0) =>
  clickhouse.command({
    query:
      "insert into events (client_id, event_id, ts, received_at, version, did) " +
      `select 1, generateUUIDv4(), now64(3) - interval ${hours * 60 - ahead} minute as then, ` +
      `then - interval ${ahead} minute, 1, 'd' from numbers(${count})`,
  });

test("lost tables and lost rows are named with their cure; a new or filled installation is well", async () => {
  expect(await said(log)).toMatch(/^its tables are gone: npx tributary migrate apply .* rewind analytics /);
  await migrate(clickhouse);
  expect(await said(empty)).toBeNull();
  expect(await said(away)).toBeNull();
  expect(await said(log)).toMatch(
    /^its rows are gone: it has 0, though 700 records .* rewind analytics --to earliest fills it/,
  );
});

test("rows that came since do not hide those that are lost", async () => {
  await store(1, 0);
  const few: RecordReader = async () => [0, 600].map((ageSec) => ({ ageSec, records: 9 }));
  expect(await said(few)).toMatch(/^its rows are gone: it has 0 from more than 10 min ago, though 9 records of then/);
  await store(100, 0.5);
  const gone = await said(log);
  expect(gone).toMatch(/^its rows are gone: it has 0 from more than 1 h ago, though 690 records of then/);
  await store(100, 2);
  expect(await said(log)).toContain("it has 0 from more than 24 h ago, though 600 records of then");
  // While the log is away nothing is known, so the incident neither ends nor begins.
  expect(await said(away, gone)).toBe(gone);
  expect(await said(away)).toBeNull();
  // Copies and rewinds append an event again: a row for ten records is enough.
  await store(60, 25, 120);
  expect(await said(log)).toBeNull();
});
