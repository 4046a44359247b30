// Migrations only go forward, one transaction a file; a failed one is resumed, and an edited one is
// refused with the fix.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { migrate, migrationsIn, statementsOf, status } from "../../infra/postgres/migrate.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let folder: string;
const run = () => migrate(database.adminUrl, { appPassword: database.appPassword, folder });
const file = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const tables = async (): Promise<readonly string[]> =>
  (await database.adminPool.query("select tablename from pg_tables where schemaname = 'public' order by 1")).rows.map(
    (row: { tablename: string }) => row.tablename,
  );

beforeAll(async () => {
  database = await freshDatabase({ empty: true });
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.adminPool.query("drop schema public cascade");
  await database.adminPool.query("create schema public");
  folder = mkdtempSync(join(tmpdir(), "migrations-"));
  return () => rmSync(folder, { recursive: true });
});

test("the shipped files bring an empty database up, and a second run finds nothing to do", async () => {
  const shipped = await migrate(database.adminUrl, { appPassword: database.appPassword });
  expect(shipped.applied[0]).toBe("001_reference.sql");
  expect(await tables()).toEqual(
    expect.arrayContaining(["clients", "reference_changes", "segment_commissions", "tokens"]),
  );
  expect(await migrate(database.adminUrl, { appPassword: database.appPassword })).toEqual({ applied: [] });
  const { applied, pending, problems } = await status(database.adminUrl);
  expect([applied.map((row) => row.file), pending, problems]).toEqual([shipped.applied, [], []]);
});

test("five starts at once apply each file once", async () => {
  file("001_one.sql", "create table one (id int);");
  file("002_two.sql", "create table two (id int);");
  const runs = await Promise.all([run(), run(), run(), run(), run()]);
  expect(runs.flatMap(({ applied }) => applied)).toEqual(["001_one.sql", "002_two.sql"]);
});

test(
  "a file that fails leaves nothing of itself, what came before stands, and the next run goes on " + "with it",
  async () => {
    file("001_one.sql", "create table one (id int primary key);");
    file("002_two.sql", "create table two (id int);\n\n-- breaks\ninsert into one values (1), (1);\n");
    file("003_three.sql", "create table three (id int);");
    await expect(run()).rejects.toThrow(
      /^002_two\.sql, line 4: duplicate key value violates unique constraint "one_pkey" \(23505\)/,
    );
    expect(await tables()).toEqual(["migrations", "one"]);
    expect((await status(database.adminUrl, folder)).pending).toEqual(["002_two.sql", "003_three.sql"]);
    file("002_two.sql", "create table two (id int);");
    expect((await run()).applied).toEqual(["002_two.sql", "003_three.sql"]);
    expect(await tables()).toEqual(["migrations", "one", "three", "two"]);
  },
);

test("the error shows the server's own words and the statement", async () => {
  file("001_one.sql", "select 1;\nselect nothing_here from nowhere;");
  await expect(run()).rejects.toThrow(
    /line 2: relation "nowhere" does not exist \(42P01\)[\s\S]*in: select nothing_here from nowhere/,
  );
});

describe("an applied file", () => {
  beforeEach(async () => {
    file("001_one.sql", "create table one (\n  id int\n);\n");
    await run();
  });
  test("that was edited is refused, with the command that restores it and the name of the next file", async () => {
    appendFileSync(join(folder, "001_one.sql"), "create table more (id int);");
    file("002_two.sql", "create table two (id int);");
    const changed = /001_one\.sql was changed after it had been applied on \d{4}-/;
    const cure = /git checkout <commit> -- migrations\/postgres\/001_one\.sql.*new file 003_/;
    await expect(run()).rejects.toThrow(new RegExp(`${changed.source}.*${cure.source}`));
    expect(await tables()).toEqual(["migrations", "one"]);
    expect((await status(database.adminUrl, folder)).problems).toHaveLength(1);
  });
  test("whose line ends alone differ is the same file", async () => {
    file("001_one.sql", "create table one (\r\n  id int\r\n);\r\n");
    expect(await run()).toEqual({ applied: [] });
  });
  test("that is gone tells of a newer version of the code", async () => {
    rmSync(join(folder, "001_one.sql"));
    file("002_two.sql", "create table two (id int);");
    await expect(run()).rejects.toThrow(
      /001_one\.sql was applied and is not among the files here: the database is newer than this code/,
    );
  });
});

test("a status asked of an empty database writes nothing", async () => {
  file("001_one.sql", "create table one (id int);");
  expect(await status(database.adminUrl, folder)).toEqual({ applied: [], pending: ["001_one.sql"], problems: [] });
  expect(await tables()).toEqual([]);
});

test("a name out of the form, or a number given twice, is refused before anything is done", () => {
  file("1_one.sql", "");
  expect(() => migrationsIn(folder)).toThrow(/1_one\.sql is not named NNN_name\.sql/);
  rmSync(join(folder, "1_one.sql"));
  file("001_one.sql", "");
  file("001_two.sql", "");
  expect(() => migrationsIn(folder)).toThrow("001_one.sql and 001_two.sql have the same number");
});

test("a semicolon inside a text, a comment, a name or a function body ends no statement", () => {
  const text =
    `-- a; b\ncreate table "a;b" (t text default ';''x'); /* c; d */\ndo $body$ begin perform 1; end ` +
    "$body$;\nselect $$;$$; -- end;\n";
  expect(statementsOf(text).map(({ line, text }) => [line, text])).toEqual([
    [2, `create table "a;b" (t text default ';''x')`],
    [2, "/* c; d */\ndo $body$ begin perform 1; end $body$"],
    [4, "select $$;$$"],
  ]);
});

test(
  "the application role gets in with the newest password, owns nothing and takes on no other role " + "by accident",
  async () => {
    await migrate(database.adminUrl, { appPassword: database.appPassword });
    const pool = database.pool();
    await expect(pool.query("select 1")).resolves.toBeDefined();
    await expect(pool.query("create table mine (id int)")).rejects.toThrow(/permission denied for schema public/);
    const { rows } = await database.adminPool.query(sql`
    select role, pg_has_role('tributary_app', role, 'usage') as inherits,
      pg_has_role('tributary_app', role, 'set') as may_set
    from unnest(array['tributary_reference', 'tributary_tokens', 'tributary_secrets']) role`);
    for (const row of rows) expect(row).toMatchObject({ inherits: false, may_set: true });
  },
);
