// Postbacks in Postgres: the marks of accepted ones, and the sealed secrets of payment providers.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { resealClientSecrets, sealedCounts } from "../../modules/access/secrets/client-secrets.ts";
import { fingerprintOf } from "../../modules/access/secrets/installation-secrets.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { forgetMarks, openMarks } from "../../modules/intake/payment-notices/marks.ts";
import { openProviders, removeProvider, saveProvider } from "../../modules/intake/payment-notices/provider-settings.ts";
import { closedPort } from "../support/closed-port.ts";
import { edgeKeyring as keyring } from "../support/edge-host.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
let [CLIENT, OTHER] = [0, 0];
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
  const made = await writeReference(pool, "test", {
    clients: [-1, -2].map((client_id) => ({ client_id, slug: `shop${client_id}`, name: "Shop" })),
  });
  [CLIENT, OTHER] = [made.idOf("clients", -1), made.idOf("clients", -2)];
});
afterAll(() => database.drop());

const warnings: unknown[] = [];
const log = { warn: (...said: unknown[]) => void warnings.push(said) };
const notice = (key: string, clientId = CLIENT, source = "postback:stripe") => ({ clientId, source, key });

test("a notice is new once, among a hundred that come at once over two processes too", async () => {
  const processes = [openMarks(pool, log), openMarks(database.pool({ max: 2 }), log)];
  const keys = Array.from({ length: 100 }, (_, n) => `evt_${n % 10}`);
  const marked = await Promise.all(keys.map((key, n) => processes[n % 2]!.mark(notice(key))));
  expect(marked.filter((one) => one === "new")).toHaveLength(10);
  const [first] = processes;
  expect(await Promise.all(["evt_0", "evt_9", "evt_10"].map((key) => first!.isMarked(notice(key))))).toEqual([
    ...[true, true, false],
  ]);
  // For another client or source it is another notice.
  expect(await first!.mark(notice("evt_0", OTHER))).toBe("new");
  expect(await first!.mark(notice("evt_0", CLIENT, "postback:adyen"))).toBe("new");
});

test("what a sender calls its notice is not kept as text", async () => {
  await openMarks(pool, log).mark(notice(`ana@shop.example ${"x".repeat(5_000)}`));
  const { rows } = await database.adminPool.query("select * from postback_marks");
  expect(JSON.stringify(rows)).not.toContain("ana@");
});

test("while Postgres is away everything is new, and that is said", async () => {
  const gone = openPool(`postgres://no@127.0.0.1:${await closedPort()}/one`, { timeoutMs: 1_000 });
  const marks = openMarks(gone, log);
  expect([await marks.isMarked(notice("evt_1")), await marks.mark(notice("evt_1"))]).toEqual([false, "new"]);
  expect(warnings).toMatchObject([
    ["postbacks.not_marked", { error: expect.any(Error) }],
    ["postbacks.not_marked", { error: expect.any(Error) }],
  ]);
  await gone.end();
});

test("marks are forgotten after 32 days", async () => {
  await openMarks(pool, log).mark(notice("evt_old"));
  await database.adminPool.query("update postback_marks set marked_at = now() - interval '33 days'");
  await openMarks(pool, log).mark(notice("evt_young"));
  expect(await forgetMarks(pool)).toBeGreaterThan(0);
  const { rows } = await database.adminPool.query("select count(*)::int as n from postback_marks");
  expect(rows).toEqual([{ n: 1 }]);
});

const save = (clientId: number, secret: string, under = keyring) =>
  transaction(pool, [clientId], (tx) => saveProvider(tx, { clientId, processor: "stripe" }, { secret }, under));

test("a secret is sealed, is the one of its client alone, and is replaced within a second everywhere", async () => {
  await save(CLIENT, "whsec_first");
  const { rows } = await database.adminPool.query<{ sealed: string }>("select sealed from payment_processors");
  expect(rows[0]!.sealed).toMatch(/^sealed:1:/);
  const processes = [openProviders(pool, keyring), openProviders(database.pool({ max: 1 }), keyring)];
  const secrets = () =>
    Promise.all(processes.map(({ settingsOf }) => settingsOf(CLIENT, "stripe").then((found) => found?.secret)));
  expect(await secrets()).toEqual(["whsec_first", "whsec_first"]);
  expect(await processes[0]!.settingsOf(OTHER, "stripe")).toBeUndefined();
  expect(await processes[0]!.settingsOf(CLIENT, "adyen")).toBeUndefined();
  await save(CLIENT, "whsec_second");
  const began = performance.now();
  await expect.poll(secrets, { interval: 50, timeout: 20_000 }).toEqual(["whsec_second", "whsec_second"]);
  // The cached value is at most half a second old; the rest is the query.
  expect(performance.now() - began).toBeLessThan(5_000);
  await transaction(pool, [CLIENT], (tx) => removeProvider(tx, { clientId: CLIENT, processor: "stripe" }));
  await expect.poll(secrets, { interval: 50, timeout: 20_000 }).toEqual([undefined, undefined]);
});

test("the rotation of the installation's secret seals them again, and counts them", async () => {
  const next = keyringOf(`kQ8vX2mN7rT4wY9zB3cF6hJ1lP5sD0gA,${keyring.newest}`);
  await save(CLIENT, "whsec_kept");
  expect((await sealedCounts(pool)).get(fingerprintOf(keyring.newest))).toBe(1);
  expect(await resealClientSecrets(pool, next)).toBe(1);
  expect((await sealedCounts(pool)).get(fingerprintOf(next.newest))).toBe(1);
  expect(await resealClientSecrets(pool, next)).toBe(0);
  expect(await openProviders(pool, next).settingsOf(CLIENT, "stripe")).toEqual({ secret: "whsec_kept" });
});

test("neither marks nor secrets of one client are seen by another, and an app alone sees none", async () => {
  await save(CLIENT, "whsec_kept");
  for (const table of ["postback_marks", "payment_processors"]) {
    const read = (role: string | undefined, clients: readonly number[]) =>
      transaction(pool, clients, async (tx) => (await tx.query(`select 1 from ${table}`)).rowCount, {
        ...(role !== undefined && { role }),
      });
    await expect(read(undefined, [CLIENT])).rejects.toThrow(/permission denied/);
    expect(await read("tributary_edge", [CLIENT])).toBeGreaterThan(0);
    expect(await read("tributary_edge", [OTHER])).toBe(0);
  }
});
