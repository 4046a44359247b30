// External sources on a real Postgres: what edges know about them and how soon, and raw payloads
// that are sealed, purged in time and erased.
import { createHash } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPool, sql, transaction } from "../../infra/postgres/sql.ts";
import { newSourceVault, sealOfSource, sourceVault } from "../../modules/access/secrets/source-secrets.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import {
  newestPayloads,
  openPayloads,
  purgePayloads,
  type TakenPayload,
} from "../../modules/intake/sources/payloads.ts";
import { hashOfKey, type OpenSources, openSources } from "../../modules/intake/sources/source-picture.ts";
import { suppress } from "../../modules/privacy/suppressions.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { keyring } from "../support/pixel-host.ts";

const SOURCE = 1;
const HOUR = 3_600_000;
const vault = newSourceVault(SOURCE, keyring);
let CLIENT = 0;
let database: FreshDatabase;
let pool: pg.Pool;
let sources: OpenSources;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 6 });
  const made = await writeReference(pool, "test", { clients: [{ client_id: -1, slug: "shop", name: "Shop" }] });
  CLIENT = made.idOf("clients", -1);
  await asClient(sql`insert into sources
      (source_id, client_id, slug, name, kind, state, mapping, secret, vault, key_sha256)
    values (${SOURCE}, ${CLIENT}, 'network', 'A network', 'postback_network', 'active',
      ${JSON.stringify({ event_name: "event", dedup_key: "id" })}::jsonb,
      ${sealOfSource("a secret of the source", { sourceId: SOURCE, column: "secret" }, keyring)}, ${vault},
      ${hashOfKey("key one")})`);
  sources = openSources(pool, { keyring });
  await sources.ready;
});
afterAll(async () => {
  await sources.close();
  await database.drop();
});
const asClient = (statement: ReturnType<typeof sql>) =>
  transaction(pool, [CLIENT], async (tx) => (await tx.query(statement)).rows);

test("edges know a source by its client and by its key, and can read what it keeps sealed", () => {
  const [known] = sources.activeOf(CLIENT);
  expect(known).toMatchObject({ source_id: SOURCE, slug: "network", kind: "postback_network" });
  expect(sources.byKey("key one")).toBe(known);
  expect(known!.secret()).toBe("a secret of the source");
  expect(known!.vault()).toEqual(sourceVault(vault, SOURCE, keyring));
});

test("a key that was replaced opens nothing within a second", async () => {
  await asClient(sql`update sources set key_sha256 = ${hashOfKey("key two")}, version = version + 1
    where source_id = ${SOURCE}`);
  const began = performance.now();
  await expect.poll(() => sources.byKey("key one"), { interval: 10 }).toBeUndefined();
  // The poll runs twice a second; the rest is for a busy machine, and no promise.
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(sources.byKey("key two")?.source_id).toBe(SOURCE);
});

const payload = (text: string, receivedAt: number): TakenPayload => ({
  ...{ sourceId: SOURCE, clientId: CLIENT, receivedAt, outcome: "accepted", code: null },
  bytes: Buffer.from(text),
  vault: sourceVault(vault, SOURCE, keyring),
});
const newest = () =>
  transaction(pool, [CLIENT], async (tx) =>
    (await newestPayloads(tx, { source_id: SOURCE, client_id: CLIENT }, sourceVault(vault, SOURCE, keyring), 20)).map(
      ({ bytes }) => bytes.toString(),
    ),
  );
const stored = async (): Promise<number> =>
  (await database.adminPool.query<{ n: number }>("select count(*)::int as n from source_payloads")).rows[0]!.n;

test("raw payloads are kept sealed, newest first, for 48 hours", async () => {
  const now = Date.now();
  const store = openPayloads(pool, { warn: () => undefined });
  await Promise.all([
    store(payload("older ana@shop.example", now - HOUR)),
    store(payload("newer", now)),
    store(payload("too old", now - 49 * HOUR)),
  ]);
  expect(await newest()).toEqual(["newer", "older ana@shop.example"]);
  const { rows } = await database.adminPool.query<{ sealed: Buffer }>("select sealed from source_payloads");
  for (const { sealed } of rows) expect(sealed.toString("latin1")).not.toContain("ana@shop");
  expect(await purgePayloads(pool, now)).toBe(1);
  expect([await stored(), await purgePayloads(pool, now)]).toEqual([2, 0]);
});

describe("of a source that sends again and again", () => {
  const rowsOf = async (source: number) =>
    (
      await database.adminPool.query<{ received_at: number; outcome: string; payload_hash: Buffer }>(
        sql`select received_at, outcome, payload_hash from source_payloads where source_id = ${source}
          order by received_at desc, payload_id desc`,
      )
    ).rows;
  const warned: string[] = [];
  const open = () => openPayloads(pool, { warn: (event: string) => void warned.push(event) });
  let other = SOURCE;
  /** A source of the same client that has sent nothing yet. */
  const newSource = async () => {
    other += 1;
    await asClient(sql`insert into sources (source_id, client_id, slug, name, kind, vault)
      values (${other}, ${CLIENT}, ${`s${other}`}, 'Another', 'generic', ${newSourceVault(other, keyring)})`);
    const own = other;
    return (text: string, receivedAt: number, more: Partial<TakenPayload> = {}): TakenPayload => ({
      ...payload(text, receivedAt),
      sourceId: own,
      ...more,
    });
  };

  test("the same bytes are kept once, as they came last, and once more of another source", async () => {
    const [of, ofAnother] = [await newSource(), await newSource()];
    const now = Date.now();
    const store = open();
    const refused = { outcome: "refused", code: "bad_value" } as const;
    await store(of("twice", now - 3_000, refused));
    await Promise.all([1_000, 2_000, 500].map((ago) => store(of("twice", now - ago))));
    await store(of("twice", now - 9_000));
    await store(ofAnother("twice", now));
    const [kept, ...further] = await rowsOf(of("", 0).sourceId);
    expect([kept!.received_at, kept!.outcome, further]).toEqual([now - 500, "accepted", []]);
    const [another] = await rowsOf(ofAnother("", 0).sourceId);
    expect(another).toBeDefined();
    // A reader of the table cannot find out whether a guessed payload has come.
    expect(kept!.payload_hash).not.toEqual(createHash("sha256").update("twice").digest());
  });

  test("the newest hundred stay, and the newest hundred refused, also when two edges write at once", async () => {
    const of = await newSource();
    const from = Date.now() - HOUR;
    const [one, two] = [open(), open()];
    const many = Array.from({ length: 130 }, (_, n) => n);
    await Promise.all([
      ...many.map((n) => one(of(`taken ${n}`, from + n))),
      ...many.map((n) => two(of(`taken ${n}`, from + n))),
      ...many.map((n) => two(of(`refused ${n}`, from + n, { outcome: "refused", code: "bad_value" }))),
    ]);
    await one(of("last", from + 1_000));
    const rows = await rowsOf(of("", 0).sourceId);
    const times = (isRefused: boolean) =>
      rows.filter(({ outcome }) => (outcome === "refused") === isRefused).map(({ received_at }) => received_at - from);
    expect([times(false).length, times(true).length]).toEqual([100, 100]);
    expect([times(false)[0], times(false).at(-1), times(true).at(-1)]).toEqual([1_000, 31, 30]);
    expect(warned).toEqual([]);
  });
});

test("an erasure of anyone takes the payloads of the client, also while they are sent again", async () => {
  const warned: string[] = [];
  const store = openPayloads(pool, { warn: (event: string) => void warned.push(event) });
  const many = Array.from({ length: 90 }, (_, n) => payload(`again ${n}`, Date.now() - HOUR + n));
  for (let round = 0; round < 5; round += 1) {
    // One by one, so that their rows lie in another order than that of the edge.
    for (const one of many) await store(one);
    await Promise.all([
      ...many.map(store),
      suppress(pool, CLIENT, [{ kind: "order_id", subject: `${round}`.repeat(64) }], {
        ...{ since: Date.now(), reason: "asked", actor: "test" },
      }),
    ]);
  }
  expect(warned).toEqual([]);
  await suppress(pool, CLIENT, [{ kind: "order_id", subject: "a".repeat(64) }], {
    ...{ since: Date.now(), reason: "asked", actor: "test" },
  });
  expect(await stored()).toBe(0);
});

test("a database that is away loses a payload, and never the event", async () => {
  const warned: string[] = [];
  const away = openPool("postgres://none:none@127.0.0.1:1/none", { timeoutMs: 500 });
  const store = openPayloads(away, { warn: (event: string) => void warned.push(event) });
  await store(payload("lost", Date.now()));
  await store(payload("not asked any more", Date.now()));
  await away.end();
  expect(warned).toEqual(["payloads.not_kept"]);
});
