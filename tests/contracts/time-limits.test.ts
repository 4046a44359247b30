// The time limit of a statement of Postgres, with a loop that is blocked and a server that is late.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase({ empty: true });
  // The server ends a statement after 5 s, the client gives it up after 6.
  pool = database.adminPool;
});
afterAll(() => database.drop());

/** With a limit of its own, as `rollback` has. */
const limited = (text: string, ms: number): pg.QueryConfig => ({ text, query_timeout: ms }) as pg.QueryConfig;
const block = (ms: number): void => {
  for (const end = performance.now() + ms; performance.now() < end; );
};
/** Blocks the loop so that timers come next, before the sockets are read. */
const blockSoon = async (ms: number): Promise<void> => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  await new Promise((resolve) => setImmediate(resolve));
  block(ms);
};

test("an answer that came while the loop was blocked counts, on a pool and in a transaction", async () => {
  // Connected before, so that only the statement waits.
  await pool.query("select 1");
  const asked = pool.query(limited("select 1 as one, pg_sleep(0.2)", 500));
  await blockSoon(1_000);
  expect((await asked).rows[0].one).toBe(1);
  const inside = await transaction(pool, null, async (tx) => {
    const answer = tx.query(limited("select 2 as two, pg_sleep(0.2)", 500));
    await blockSoon(1_000);
    return (await answer).rows[0].two;
  });
  expect(inside).toBe(2);
});

test("a connection that was made while the loop was blocked counts, and a silent server is given up", async () => {
  const one = openPool(database.adminUrl, { timeoutMs: 500, max: 1 });
  const asked = one.query("select 1 as one");
  // Each answer of the server waits for the end of a block.
  const blocking = setInterval(() => block(300), 1);
  expect((await asked).rows[0].one).toBe(1);
  clearInterval(blocking);
  await one.end();

  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const other = openPool(`postgres://a:b@127.0.0.1:${port}/c`, { timeoutMs: 500, max: 1 });
  const began = performance.now();
  const error = await other.query("select 1").catch((thrown: unknown) => thrown);
  expect(classify(error)).toBe("transient");
  expect(performance.now() - began).toBeLessThan(3_000);
  // The next one does not wait for the first.
  expect(classify(await other.query("select 1").catch((thrown: unknown) => thrown))).toBe("transient");
  await other.end();
  silent.close();
});

test("a caller that waits for a connection is given up in time, but not because the loop was blocked", async () => {
  const two = openPool(database.adminUrl, { timeoutMs: 500, max: 2 });
  await two.query("select 1");
  // One takes the idle connection; the other waits for it, and then for a new one.
  const both = Promise.all([two.query("select 1 as one"), two.query("select 2 as one")]);
  const blocking = setInterval(() => block(300), 1);
  const answers = await both.finally(() => clearInterval(blocking));
  expect(answers.map(({ rows }) => rows[0].one)).toEqual([1, 2]);
  await two.end();

  const one = openPool(database.adminUrl, { timeoutMs: 500, max: 1 });
  const held = await one.connect();
  const waits = one.query("select 3 as three");
  const freed = held.query("select pg_sleep(0.2)").then(() => held.release());
  await blockSoon(1_000);
  await freed;
  expect((await waits).rows[0].three).toBe(3);

  const again = await one.connect();
  const began = performance.now();
  await expect(one.query("select 4")).rejects.toThrow("timeout exceeded when trying to connect");
  await expect(one.connect()).rejects.toThrow("timeout exceeded when trying to connect");
  expect(performance.now() - began).toBeGreaterThan(900);
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(one.waitingCount).toBe(0);
  again.release();
  expect((await one.query("select 5 as five")).rows[0].five).toBe(5);
  expect([one.totalCount, one.idleCount]).toEqual([1, 1]);
  await one.end();
});

test("a server that is late is given up, and what waited behind it is not sent later", async () => {
  await pool.query("create table if not exists late (n int)");
  await expect(pool.query(limited("select pg_sleep(2)", 300))).rejects.toThrow("Query read timeout");
  const session = await pool.connect();
  const first = session.query("select pg_sleep(1)");
  await expect(session.query(limited("insert into late values (1)", 300))).rejects.toThrow("Query read timeout");
  await first;
  expect((await session.query("select * from late")).rows).toEqual([]);
  session.release();
});

test("answers, errors and values are those of the client", async () => {
  expect((await pool.query("select $1::int as n", [7])).rows).toEqual([{ n: 7 }]);
  expect((await pool.query({ name: "named", text: "select $1::int as n", values: [8] })).rows).toEqual([{ n: 8 }]);
  expect((await pool.query({ text: "select 9", rowMode: "array" })).rows).toEqual([[9]]);
  await expect(pool.query("select 1/0")).rejects.toMatchObject({ code: "22012", severity: "ERROR" });
});
