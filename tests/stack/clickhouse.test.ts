// The front of the embedded ClickHouse, tested with the client of the product.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Stack } from "../../infra/embedded/supervisor.ts";
import { workshop } from "./home-for-test.ts";

const here = workshop();
let stack: Stack;
let client: ClickHouseClient;
beforeAll(async () => {
  stack = await here.start({ services: ["clickhouse"] });
  client = createClient({ url: stack.env.CLICKHOUSE_URL!, log: { level: ClickHouseLogLevel.OFF } });
  await client.command({
    query:
      "CREATE TABLE sales (id UInt64, version UInt32, name String DEFAULT 'none', amount Decimal(18, " +
      "4)) ENGINE = ReplacingMergeTree(version) ORDER BY id SETTINGS " +
      "non_replicated_deduplication_window = 100",
    clickhouse_settings: { max_execution_time: 10 },
  });
});
afterAll(async () => {
  await client.close();
  await here.clear();
});

const rows = async (query: string, options: object = {}) =>
  (await client.query({ query, format: "JSONEachRow", ...options })).json();
const insert = (values: readonly unknown[], token: string) =>
  client.insert({
    table: "sales",
    values,
    format: "JSONCompactEachRow",
    clickhouse_settings: { insert_deduplication_token: token },
  });

test("large integers and decimals arrive exactly, as texts", async () => {
  expect(
    await rows("SELECT 9007199254740993::UInt64 AS n, 0.1234::Decimal(18, 4) AS d, currentDatabase() AS db"),
  ).toEqual([{ n: "9007199254740993", d: "0.1234", db: "tributary" }]);
});

test("parameters are bound as values, whatever they contain", async () => {
  const text = "it's \\ a\ttab\n{b:String} -- é '; DROP TABLE sales";
  const query = `SELECT {a:String} AS a, {b:Array(String)} AS b, {c:Nullable(String)} AS c,
      2 IN {d:Array(UInt8)} AS d, {e:DateTime64(3)}::String AS e,
      '{a:String}' AS untouched, {m:Map(String, UInt8)} AS m /* {a:String} */
      FROM numbers({n:UInt32}) LIMIT {n:UInt32}`;
  const query_params = {
    a: text,
    b: ["x'y", "z\\"],
    c: null,
    d: [1, 2],
    e: new Date(1_700_000_000_123),
    m: { k: 1 },
    n: 1,
  };
  expect(await rows(query, { query_params })).toEqual([
    {
      a: text,
      b: ["x'y", "z\\"],
      c: null,
      d: 1,
      e: expect.stringMatching(/^2023-11-14 .*\.123$/),
      untouched: "{a:String}",
      m: { k: 1 },
    },
  ]);
  expect(await rows("SELECT count() AS n FROM {t:Identifier}", { query_params: { t: "sales" } })).toEqual([{ n: "0" }]);
});

test("a setting of one statement does not outlive it", async () => {
  const query = "SELECT getSetting('max_execution_time') AS seconds, getSetting('max_threads') AS threads";
  const before = await rows(query);
  expect(await rows(query, { clickhouse_settings: { max_execution_time: 7, max_threads: 1 } })).toEqual([
    { seconds: 7, threads: 1 },
  ]);
  await client.command({ query: "SET max_threads = 1" });
  for (let lane = 0; lane < 4; lane += 1) expect(await rows(query)).toEqual(before);
});

test("an error carries the code and type of a server", async () => {
  await expect(rows("SELECT * FROM nowhere")).rejects.toMatchObject({ code: "60", type: "UNKNOWN_TABLE" });
  await expect(rows("SELEC 1")).rejects.toMatchObject({ code: "62", type: "SYNTAX_ERROR" });
  await expect(rows("SELECT {missing:String}")).rejects.toMatchObject({ code: "456", type: "UNKNOWN_QUERY_PARAMETER" });
  await expect(insert([["not a number", 1, "x", 1]], "e")).rejects.toMatchObject({
    type: expect.stringMatching(/^CANNOT_PARSE/),
  });
  const { origin, username, password } = new URL(stack.env.CLICKHOUSE_URL!);
  const headers = { "x-clickhouse-user": username, "x-clickhouse-key": password };
  const statusOf = async (sql: string) => {
    const answer = await fetch(`${origin}/`, { method: "POST", body: sql, headers });
    return [answer.status, answer.headers.get("x-clickhouse-exception-code"), (await answer.text()).slice(0, 22)];
  };
  expect(await statusOf("SELECT * FROM nowhere")).toEqual([404, "60", "Code: 60. DB::Exceptio"]);
  expect(await statusOf("SELEC 1")).toEqual([400, "62", "Code: 62. DB::Exceptio"]);
});

test("a statement ends at its time limit, and others do not wait for it", async () => {
  const slow = rows("SELECT sleepEachRow(1) FROM numbers(9) SETTINGS max_block_size = 1", {
    clickhouse_settings: { max_execution_time: 1 },
  });
  const ended: string[] = [];
  const refused = expect(slow.finally(() => ended.push("slow"))).rejects.toMatchObject({
    code: "159",
    type: "TIMEOUT_EXCEEDED",
  });
  expect(await rows("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  ended.push("quick");
  await refused;
  expect(ended).toEqual(["quick", "slow"]);
});

test("what a failed statement had found is in no later answer", async () => {
  const fails =
    "SELECT number, throwIf(number = 5000) FROM numbers(10000) SETTINGS max_block_size = 100, max_threads = 1";
  // As many queries as there are connections for reading, so that each connection has failed once.
  for (let n = 0; n < 3; n += 1) {
    await Promise.all(Array.from({ length: 3 }, () => expect(rows(fails)).rejects.toMatchObject({ code: "395" })));
    const answers = await Promise.all(Array.from({ length: 3 }, () => rows("SELECT 'next' AS text")));
    expect(answers).toEqual(Array.from({ length: 3 }, () => [{ text: "next" }]));
  }
});

test("an insert counts once per token, and FINAL keeps the highest version", async () => {
  const { summary } = await insert(
    [
      ["9007199254740993", 1, "first", "1.5"],
      [2, 1, "two", "2.25"],
    ],
    "a",
  );
  expect(summary?.written_rows).toBe("2");
  await insert(
    [
      ["9007199254740993", 1, "first", "1.5"],
      [2, 1, "two", "2.25"],
    ],
    "a",
  );
  expect(await rows("SELECT count() AS n FROM sales")).toEqual([{ n: "2" }]);
  await insert([["9007199254740993", 2, "second", "1.5"]], "b");
  await insert([["9007199254740993", 1, "first", "1.5"]], "replay:a");
  expect(await rows("SELECT id, version, name, amount FROM sales FINAL ORDER BY id DESC")).toEqual([
    { id: "9007199254740993", version: 2, name: "second", amount: "1.5" },
    { id: "2", version: 1, name: "two", amount: "2.25" },
  ]);
});

test("rows may name their columns, come as objects, or come from a query", async () => {
  await client.insert({ table: "sales", columns: ["id", "version"], values: [[10, 1]], format: "JSONCompactEachRow" });
  await client.insert({
    table: "tributary.sales",
    values: [{ id: 11, version: 1, name: "given" }],
    format: "JSONEachRow",
  });
  await client.command({
    query: "INSERT INTO sales (id, version) SELECT number + {from:UInt64}, 1 FROM numbers(2)",
    query_params: { from: 12 },
    clickhouse_settings: { max_execution_time: 5 },
  });
  await client.command({
    query: "INSERT INTO sales (id, version) VALUES (14, 1)",
    clickhouse_settings: { async_insert: 0 },
  });
  expect(await rows("SELECT id, name FROM sales FINAL WHERE id BETWEEN 10 AND 14 ORDER BY id")).toEqual([
    { id: "10", name: "none" },
    { id: "11", name: "given" },
    { id: "12", name: "none" },
    { id: "13", name: "none" },
    { id: "14", name: "none" },
  ]);
});

test("rows in a binary format count once per token, and their bytes are left nowhere", async () => {
  const row = Buffer.alloc(12);
  row.writeBigUInt64LE(77n);
  row.writeUInt32LE(5, 8);
  const send = async (bytes: Buffer): Promise<void> => {
    const { stream } = await client.exec({
      query: "INSERT INTO sales (id, version) FORMAT RowBinary",
      values: Readable.from([bytes.subarray(0, 5), bytes.subarray(5)]),
      clickhouse_settings: { insert_deduplication_token: "binary" },
    });
    stream.resume();
  };
  await send(row);
  await send(row);
  expect(await rows("SELECT count() AS n, max(version) AS v FROM sales WHERE id = 77")).toEqual([{ n: "1", v: 5 }]);
  await expect(send(row.subarray(0, 9))).rejects.toMatchObject({ code: "33" });
  expect(readdirSync(join(here.home, "clickhouse", "inserts"))).toEqual([]);
});

test("changes of tables take settings too", async () => {
  await client.command({
    query: "CREATE VIEW big AS SELECT id FROM sales WHERE id > 1000",
    clickhouse_settings: { max_execution_time: 5 },
  });
  // The client sends its settings with every statement, also with those whose grammar has none.
  const settings = { clickhouse_settings: { max_execution_time: 5 } };
  const statements = [
    "CREATE OR REPLACE TABLE other (id UInt64) ENGINE = MergeTree ORDER BY id",
    "CREATE MATERIALIZED VIEW copy TO other AS SELECT id FROM sales",
    "CREATE FUNCTION IF NOT EXISTS twice AS (n) -> n * 2",
    "CREATE DATABASE IF NOT EXISTS elsewhere ENGINE = Atomic",
    "CREATE TEMPORARY TABLE brief (id UInt8)",
    "CREATE TABLE IF NOT EXISTS third AS other",
    "EXCHANGE TABLES other AND third",
    "RENAME TABLE third TO fourth",
    "TRUNCATE TABLE fourth",
    "DETACH TABLE fourth",
    "ATTACH TABLE fourth",
    "CHECK TABLE fourth",
    "SHOW CREATE TABLE fourth",
    "ALTER TABLE fourth ADD COLUMN IF NOT EXISTS note String DEFAULT ''",
    "ALTER TABLE fourth DROP PARTITION tuple()",
    "SYSTEM STOP MERGES fourth",
    "SYSTEM START MERGES fourth",
    "DROP TABLE fourth SYNC",
    "DROP VIEW copy",
    "DROP FUNCTION twice",
    "DROP DATABASE elsewhere",
    "-- a comment before it\nDROP TABLE IF EXISTS other;",
  ];
  for (const query of statements) await expect(client.command({ query, ...settings }), query).resolves.toBeDefined();
  await client.command({
    query: "ALTER TABLE sales DELETE WHERE id = 14",
    clickhouse_settings: { mutations_sync: "1" },
  });
  await client.command({ query: "OPTIMIZE TABLE sales FINAL", clickhouse_settings: { max_execution_time: 5 } });
  expect(await rows("SELECT count() AS n FROM sales WHERE id = 14")).toEqual([{ n: "0" }]);
  expect(await rows("SELECT id FROM big GROUP BY id")).toEqual([{ id: "9007199254740993" }]);
});
