// Opaque tokens: only their hash is stored, they only open what they were made for, and a revoked
// one fails everywhere within a second.
import { createHash } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { transaction } from "../../infra/postgres/sql.ts";
import { openTokens, type Tokens } from "../../modules/access/tokens/live-tokens.ts";
import { createToken, limitToken, newToken, revokeToken } from "../../modules/access/tokens/tokens.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { expectWithin, msOf } from "../support/quickest.ts";

let database: FreshDatabase;
let pool: pg.Pool;
/** Two processes. */
let here: Tokens;
let there: Tokens;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 6 });
  [here, there] = [openTokens(pool), openTokens(database.pool())];
  await Promise.all([here.ready, there.ready]);
});
afterAll(async () => {
  await here.close();
  await there.close();
  await database.drop();
});

const until = async (what: string, isSo: () => boolean | Promise<boolean>, withinMs = 30_000): Promise<void> => {
  for (
    const deadline = performance.now() + withinMs;
    !(await isSo());
    await new Promise((resolve) => setTimeout(resolve, 5))
  )
    if (performance.now() > deadline) throw new Error(`${what} did not come within ${withinMs} ms`);
};
const known = (token: string) =>
  until("the token", () => here.find(token) !== undefined && there.find(token) !== undefined);
const own = { kind: "ingest", label: "own", client_id: 7 } as const;
const contracted = { requests_a_minute: 100 };
const ingest = (client: number, more: { client_side?: boolean } = {}) =>
  createToken(pool, { kind: "ingest", label: "test", client_id: client, ...more });

test("a token bears its kind and 32 random bytes, and its text is nowhere in the database", async () => {
  const { token, token_id } = await ingest(7);
  expect(token).toMatch(/^trb_ingest_[A-Za-z0-9_-]{43}$/);
  expect(Buffer.from(token.slice("trb_ingest_".length), "base64url")).toHaveLength(32);
  const { rows } = await database.adminPool.query("select * from tokens");
  expect(JSON.stringify(rows)).not.toContain(token.slice(11));
  const saved = rows.find((row) => row.token_id === token_id);
  expect(saved.sha256).toEqual(createHash("sha256").update(token).digest());
});

test("every process knows a new token within a second, and what it opens", async () => {
  await expectWithin(1_000, async () => {
    const { token, token_id } = await ingest(7, { client_side: true });
    const ms = await msOf(() => known(token));
    expect(there.find(token)).toEqual({
      token_id,
      kind: "ingest",
      client_id: 7,
      partner_id: null,
      client_ids: null,
      client_side: true,
      ...contracted,
    });
    return ms;
  });
});

test("a token has the limit that it was made with, and a change is known everywhere within a second", async () => {
  const { token, token_id } = await createToken(pool, { ...own, requests_a_minute: 600 });
  await known(token);
  expect(there.find(token)?.requests_a_minute).toBe(600);
  let limit = 60;
  await expectWithin(1_000, async () => {
    limit += 1;
    expect(await limitToken(pool, token_id, limit)).toBe(true);
    return msOf(() =>
      until("the limit", () => [here, there].every((one) => one.find(token)?.requests_a_minute === limit)),
    );
  });
  await revokeToken(pool, token_id);
  expect(await limitToken(pool, token_id, 70), "it is revoked").toBe(false);
  for (const wrong of [0, 10_001, 1.5])
    await expect(limitToken(pool, token_id, wrong)).rejects.toThrow("requests_a_minute: must be a whole number");
});

test("a revoked token is dead in every process within a second, and the others live", async () => {
  const isDead = (token: string): boolean => [here, there].every((one) => one.find(token) === undefined);
  for (let round = 0; round < 3; round += 1)
    await expectWithin(1_000, async () => {
      const [one, other] = [await ingest(7), await ingest(7)];
      await known(one.token);
      await known(other.token);
      expect(await revokeToken(pool, one.token_id)).toBe(true);
      const ms = await msOf(() => until("the death", () => isDead(one.token)));
      expect(there.find(other.token)).toBeDefined();
      return ms;
    });
});

test("a token is revoked once, and one that does not exist never", async () => {
  const { token_id } = await ingest(7);
  expect([
    await revokeToken(pool, token_id),
    await revokeToken(pool, token_id),
    await revokeToken(pool, 999_999),
  ]).toEqual([true, false, false]);
});

test("nothing but a whole live token is found", async () => {
  const { token } = await ingest(7);
  await known(token);
  const strangers = [
    "",
    "trb_ingest_",
    `${token} `,
    token.slice(0, -1),
    token.toUpperCase(),
    token.replace("ingest", "admin"),
    newToken("ingest"),
    "x".repeat(1_000_000),
    "__proto__",
  ];
  for (const stranger of strangers) expect(here.find(stranger)).toBeUndefined();
});

test("a new upload token kills the partner's old one in the same moment", async () => {
  const old = await createToken(pool, { kind: "upload", label: "old", partner_id: 3 });
  await known(old.token);
  const rotated = await createToken(pool, { kind: "upload", label: "new", partner_id: 3 });
  await until("the death", () => there.find(old.token) === undefined && there.find(rotated.token) !== undefined);
  expect(there.find(rotated.token)).toMatchObject({ partner_id: 3, client_id: null });
});

describe("made wrongly", () => {
  test.each([
    [
      "an ingest token without a client",
      { kind: "ingest" as const, label: "x" },
      /^client_id: an ingest token belongs to a client$/,
    ],
    [
      "an admin token with a client",
      { kind: "admin" as const, label: "x", client_id: 1 },
      /^client_id: a token of kind admin belongs to no client$/,
    ],
    [
      "an upload token without a partner",
      { kind: "upload" as const, label: "x" },
      /^partner_id: an upload token belongs to a partner$/,
    ],
    [
      "a service token with a limit",
      { kind: "service" as const, label: "x", requests_a_minute: 5 },
      /^requests_a_minute: only an ingest token has a limit of its own$/,
    ],
    ["a limit of nothing", { ...own, requests_a_minute: 0 }, /^requests_a_minute: must be a whole number from 1 to/],
  ])("%s is refused", (_, wanted, message) => expect(createToken(pool, wanted)).rejects.toThrow(message));
  test("a given text of another form is refused", () =>
    expect(createToken(pool, { kind: "admin", label: "x" }, "secret")).rejects.toThrow(
      /^token: not of the form trb_admin_/,
    ));
});

test("an earlier token can be saved into a new database, any number of times, but not after its end", async () => {
  const token = newToken("service");
  const wanted = { kind: "service" as const, label: "kept" };
  const first = await createToken(pool, wanted, token);
  expect(await createToken(pool, wanted, token)).toEqual(first);
  await revokeToken(pool, first.token_id);
  await expect(createToken(pool, wanted, token)).rejects.toThrow('the token "kept" was revoked: make a new one');
});

test("a hundred tokens made and revoked at once are all seen", async () => {
  const made = await Promise.all(Array.from({ length: 100 }, (_, n) => ingest(n + 1)));
  await Promise.all(made.filter((_, n) => n % 2 === 0).map(({ token_id }) => revokeToken(pool, token_id)));
  await until(
    "all of them",
    () => made.every(({ token }, n) => (there.find(token) === undefined) === (n % 2 === 0)),
    2_000,
  );
});

test("writers take turns, so that a poll which sees one change has seen all before it", async () => {
  const waiting = async (): Promise<boolean> =>
    (
      await database.adminPool.query(
        "select 1 from pg_locks where locktype = 'advisory' and not granted and database = (select oid " +
          "from pg_database where datname = current_database())",
      )
    ).rowCount === 1;
  const order: string[] = [];
  let second: Promise<unknown> = Promise.resolve();
  await transaction(pool, null, async (tx) => {
    await tx.query("select pg_advisory_xact_lock(hashtext('tributary.tokens'))");
    second = ingest(7).then(() => order.push("second"));
    await until("the second writer at the lock", waiting);
    order.push("first");
  });
  await second;
  expect(order).toEqual(["first", "second"]);
});

test("the last use is written lazily, and at the close", async () => {
  const lastUse = async (id: number): Promise<number | null> =>
    (
      await database.adminPool.query<{ last_used_at: number | null }>(
        `select last_used_at from tokens where token_id = ${id}`,
      )
    ).rows[0]!.last_used_at;
  const [often, once, never] = [await ingest(7), await ingest(7), await ingest(7)];
  const process = openTokens(pool, { writeUsesMs: 50 });
  await process.ready;
  process.find(often.token);
  await until("the last use", async () => (await lastUse(often.token_id)) !== null);
  const closing = openTokens(pool);
  await closing.ready;
  closing.find(once.token);
  expect(await lastUse(once.token_id)).toBeNull();
  await closing.close();
  expect(await lastUse(once.token_id)).not.toBeNull();
  expect(await lastUse(never.token_id)).toBeNull();
  await process.close();
});

test(
  "while the tables hold other tenants' tokens, the application role sees none without naming a " + "tenant",
  async () => {
    await ingest(7);
    expect(await transaction(pool, null, async (tx) => (await tx.query("select 1 from tokens")).rowCount)).toBe(0);
  },
);
