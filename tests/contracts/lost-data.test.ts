// A ClickHouse that comes back without its data says so, and what brings them back.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate } from "../../infra/clickhouse/migrate.ts";
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

/** What the probe says while `read` records of the log are stored; null: all is well. */
const said = (read: () => Promise<number>): Promise<string | null> => {
  const nothing = null as never;
  const { analytics_store: look } = openProbes({
    ...{ instance: "one", topicPrefix: "", clickhouse, redis: nothing, objects: nothing, pool: nothing },
    ...{ syncLag: nothing, eventLog: nothing, eventProcessing: nothing, readIntoClickhouse: read },
  });
  return look(null).then(
    () => null,
    (error: Error) => error.message,
  );
};

test("lost tables and lost rows are named with their cure; a new or filled installation is well", async () => {
  expect(await said(async () => 7)).toMatch(/^its tables are gone: npx tributary migrate apply .* rewind analytics /);
  await migrate(clickhouse);
  expect(await said(async () => 0)).toBeNull();
  expect(await said(() => Promise.reject(new Error("the log is away")))).toBeNull();
  expect(await said(async () => 7)).toMatch(
    /^it is empty, though 7 records .* rewind analytics --to earliest fills it/,
  );
  await clickhouse.command({
    query:
      "insert into events (client_id, event_id, ts, version, did) values " +
      "(1, '00000000-0000-8000-8000-000000000001', now64(3), 1, 'd')",
  });
  expect(await said(async () => 7)).toBeNull();
});
