// Recordings of visits on a real Postgres: sealed, bounded, erased with their visitor, purged in
// time, and readable only while the visitor agrees.
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { resealClientSecrets } from "../../modules/access/secrets/client-secrets.ts";
import { fingerprintOf } from "../../modules/access/secrets/installation-secrets.ts";
import { type Chunk, chunkIn } from "../../modules/intake/recordings/chunk.ts";
import { purgeRecordings } from "../../modules/intake/recordings/purge-recordings.ts";
import { clientsOfRecording, openRecording } from "../../modules/intake/recordings/recording-reads.ts";
import { type RecordingLimits, recordingLimits, storeChunk } from "../../modules/intake/recordings/recording-store.ts";
import { suppress } from "../../modules/privacy/suppressions.ts";
import { identityEdges } from "../../sinks/identity/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { FreshDatabase } from "../support/fresh-database.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { keyring } from "../support/pixel-host.ts";
import { newVisit, recordingClients } from "../support/recording-clients.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
let CLIENT = 0;
let OTHER = 0;
const by = { actor: "ana@shop.example", role: "operator", request_id: "cli-1", ip: null };

let database: FreshDatabase;
let pool: pg.Pool;
let objects: ReturnType<typeof inMemoryObjects>;
let now = Date.UTC(2026, 10, 1);
beforeAll(async () => {
  const made = await recordingClients();
  ({ database, pool } = made);
  [CLIENT, OTHER] = made.clients;
});
afterAll(() => database.drop());
beforeEach(async () => {
  objects = inMemoryObjects();
  // Each test has days of its own, without recordings of earlier tests.
  now += 200 * DAY;
  await purgeRecordings({ pool, objects }, now);
});

const PAGE = "0123456789abcdef";
const chunkOf = (sid: string, over: object = {}): Chunk =>
  chunkIn(
    Buffer.from(
      JSON.stringify({
        ...{ cid: CLIENT, did: "any", sid, page: PAGE, seq: 0, consent: 0xff },
        events: [{ type: 4, timestamp: now, data: { href: `https://shop.example/${sid}` } }],
        ...over,
      }),
    ),
  );
const sender = { sender: "203.0.113.7", network: "203.0.113.0/24", hasTicket: true };
const store = (chunk: Chunk, { device = "d".repeat(64), mask = 0xff, limits = recordingLimits, ports = {} } = {}) =>
  storeChunk({ pool, objects, keyring, limits, ...ports }, { chunk, device, mask, receivedAt: now, ...sender });
const open = (sessionId: string, latest?: number, from: number = CLIENT) =>
  openRecording({ pool, objects, keyring, latestMask: async () => latest }, { clientId: from, sessionId }, by);
const rows = <R extends object>(statement: string) =>
  database.adminPool.query<R>(statement).then(({ rows: found }) => found);
const count = async (table: string, sid: string): Promise<number> =>
  (await rows<{ n: number }>(`select count(*)::int as n from ${table} where session_id = '${sid}'`))[0]!.n;

describe("a visit", () => {
  test("is read as it was recorded, page by page in the order of their times", async () => {
    const sid = newVisit();
    const other = "fedcba9876543210";
    const event = (at: number) => ({ type: 3, timestamp: at, data: { source: 2, at } });
    await store(chunkOf(sid, { page: other, events: [event(now + 9_000)] }));
    await store(chunkOf(sid, { seq: 1, events: [event(now + 5_000), event(now + 6_000)] }));
    await store(chunkOf(sid));
    const read = await open(sid);
    expect(read).toMatchObject({ session_id: sid, events: 4, consent: 0xff, missing: 0 });
    const { pages } = read as Exclude<typeof read, string>;
    expect(pages.map(({ page, events }) => [page, events.map(({ timestamp }) => timestamp - now)])).toEqual([
      [PAGE, [0, 5_000, 6_000]],
      [other, [9_000]],
    ]);
    expect(await clientsOfRecording(pool, sid)).toEqual([CLIENT]);
  });

  test("lies in objects that are noise without the key, and is another client's business", async () => {
    const sid = newVisit();
    await store(chunkOf(sid));
    const [[key, body] = []] = [...objects.held];
    expect(key).toBe(`recordings/${CLIENT}/${sid}/${PAGE}-0000`);
    expect(body!.toString("latin1")).not.toContain("shop.example");
    expect(await open(sid, undefined, OTHER)).toBe("unknown");
    expect(
      (await rows<{ device: string }>(`select device from recording_keys where client_id = ${OTHER}`)).length,
    ).toBe(0);
  });

  test("that is sent twice, by two senders at once and in another order, is stored once", async () => {
    const sid = newVisit();
    const chunks = [0, 1, 2, 3].map((seq) => chunkOf(sid, { seq }));
    await Promise.all([...chunks, ...chunks.toReversed()].map((chunk) => store(chunk)));
    expect(objects.held.size).toBe(4);
    const [row] = await rows(`select chunks, events from recordings where session_id = '${sid}'`);
    expect(row).toEqual({ chunks: 4, events: 4 });
  });

  test("is named before it is stored: what object storage refuses is stored by the next try", async () => {
    const sid = newVisit();
    const away = { putNew: () => Promise.reject(new Error("object storage is away")) };
    await expect(store(chunkOf(sid), { ports: { objects: away } })).rejects.toThrow("away");
    expect(await open(sid)).toMatchObject({ missing: 1, pages: [] });
    await store(chunkOf(sid));
    expect(await open(sid)).toMatchObject({ missing: 0, pages: [{ page: PAGE }], events: 1 });
  });

  test("of one device takes nothing from another", async () => {
    const sid = newVisit();
    await store(chunkOf(sid));
    expect(await store(chunkOf(sid, { seq: 1 }), { device: "e".repeat(64) })).toBe("other_device");
    expect(objects.held.size).toBe(1);
  });
});

describe("a bound", () => {
  const limited = (over: Partial<RecordingLimits>) => ({ limits: { ...recordingLimits, ...over } });

  test("of chunks, of bytes and of time ends a visit, and what is stored stays", async () => {
    const sid = newVisit();
    await store(chunkOf(sid));
    expect(await store(chunkOf(sid, { seq: 1 }), limited({ chunks: 1 }))).toBe("visit_too_long");
    expect(await store(chunkOf(sid, { seq: 1 }), limited({ bytes: 100 }))).toBe("visit_too_long");
    // A chunk that is stored already does not add to it.
    expect(await store(chunkOf(sid), limited({ chunks: 1 }))).toBeUndefined();
    now += 13 * 60 * MINUTE;
    expect(await store(chunkOf(sid, { seq: 1 }))).toBe("visit_too_long");
    expect([objects.held.size, await count("recording_chunks", sid)]).toEqual([1, 1]);
  });

  test("of visits holds for 24 hours of a client, also against many at once, and for no other client", async () => {
    const tried = await Promise.all(
      Array.from({ length: 8 }, () => store(chunkOf(newVisit()), limited({ visitsADay: 3 }))),
    );
    expect(tried.filter((one) => one === undefined)).toHaveLength(3);
    expect(new Set(tried)).toEqual(new Set([undefined, "too_many_visits"]));
    expect(await store(chunkOf(newVisit(), { cid: OTHER }), limited({ visitsADay: 3 }))).toBeUndefined();
    now += 25 * 60 * MINUTE;
    expect(await store(chunkOf(newVisit()), limited({ visitsADay: 3 }))).toBeUndefined();
  });
});

describe("a visitor", () => {
  test("who withdrew is not shown, is shown after agreeing again, and each look is audited", async () => {
    const sid = newVisit();
    await store(chunkOf(sid));
    for (const mask of [0x00, 0x01, 0x10, 0xee]) expect(await open(sid, mask)).toBe("withdrawn");
    expect(await open(sid, 0x11)).toMatchObject({ session_id: sid });
    const audited = await rows<{ actor: string; action: string; after: object }>(
      `select actor, action, after from audit where entity = 'replay:${sid}' order by audit_id`,
    );
    expect(audited).toHaveLength(5);
    expect(audited[0]).toMatchObject({ actor: by.actor, action: "replay.viewed", after: { is_shown: false } });
    expect(audited[4]).toMatchObject({ after: { is_shown: true } });
  });

  test("who was erased has no key any more, later chunks are refused, and objects go with the purge", async () => {
    const [sid, later, device] = [newVisit(), newVisit(), "a".repeat(64)];
    await store(chunkOf(sid), { device });
    await store(chunkOf(later), { device: "b".repeat(64) });
    const why = { since: now, reason: "asked", actor: "ana" };
    await suppress(pool, CLIENT, [{ kind: "did", subject: device }], why);
    expect(await open(sid)).toBe("erased");
    expect(await rows(`select 1 from recording_keys where device = '${device}'`)).toEqual([]);
    expect(await rows(`select device from recordings where session_id = '${sid}'`)).toEqual([{ device: null }]);
    expect(await store(chunkOf(sid, { seq: 1 }), { device })).toBe("erased");
    expect(await open(later)).toMatchObject({ session_id: later });
    // A chunk under way still has time to finish.
    expect(await purgeRecordings({ pool, objects }, Date.now())).toBe(0);
    expect(await purgeRecordings({ pool, objects }, Date.now() + 11 * MINUTE)).toBe(1);
    expect([await count("recordings", sid), await count("recordings", later)]).toEqual([0, 1]);
    expect([...objects.held.keys()].filter((key) => key.includes(sid))).toEqual([]);
    const again = newVisit();
    await store(chunkOf(again), { device });
    expect(await open(again)).toMatchObject({ session_id: again });
  });
});

test("a visitor who is erased by an e-mail has no recording on any device that showed it", async () => {
  const [hers, lent, other] = [newVisit(), newVisit(), newVisit()];
  const [one, two, three] = ["1", "2", "3"].map((digit) => digit.repeat(64)) as [string, string, string];
  await store(chunkOf(hers), { device: one });
  await store(chunkOf(lent), { device: two });
  await store(chunkOf(other), { device: three });
  const email = "e".repeat(64);
  const edge = (did: string, identifier: string) => ({
    ...{ client_id: CLIENT, did, identifier, kind: "email", method: "email_on_event", confidence: 100 },
    ...{ event_id: "00000000-0000-8000-8000-000000000001", at: now, expires_at: now + DAY, unlinked_at: null },
  });
  await postgresStore(pool).within({ tenants: [CLIENT], token: "" }, (write) =>
    identityEdges.write([edge(one, email), edge(two, email), edge(three, "f".repeat(64))], write),
  );
  await suppress(pool, CLIENT, [{ kind: "email", subject: email }], { since: now, reason: "asked", actor: "ana" });
  expect([await open(hers), await open(lent)]).toEqual(["erased", "erased"]);
  expect(await open(other)).toMatchObject({ session_id: other });
});

describe("the purge", () => {
  test("ends what began 90 days ago, with its key, and goes on where it was stopped", async () => {
    const device = "c".repeat(64);
    const old = [newVisit(), newVisit(), newVisit()];
    for (const sid of old) for (const seq of [0, 1]) await store(chunkOf(sid, { seq }), { device });
    now += 89 * DAY;
    const young = newVisit();
    await store(chunkOf(young));
    expect(await purgeRecordings({ pool, objects }, now)).toBe(0);
    now += 2 * DAY;
    let asked = 0;
    const isClosing = () => {
      asked += 1;
      return asked > 2;
    };
    expect(await purgeRecordings({ pool, objects }, now, isClosing)).toBe(4);
    expect(await rows(`select 1 from recording_keys where device = '${device}'`)).toHaveLength(1);
    // One object is gone already, as after a death between two deletes.
    const [left] = [...objects.held.keys()].filter((key) => old.some((sid) => key.includes(sid)));
    await objects.delete(left!);
    expect(await purgeRecordings({ pool, objects }, now)).toBe(2);
    expect([...objects.held.keys()].map((key) => key.split("/")[2])).toEqual([young]);
    expect(await rows(`select 1 from recording_keys where device = '${device}'`)).toEqual([]);
    expect(await count("recording_chunks", old[0]!)).toBe(0);
  });

  test("leaves the row where object storage does not answer, so that the next one ends it", async () => {
    const sid = newVisit();
    await store(chunkOf(sid));
    now += 91 * DAY;
    const away = { delete: () => Promise.reject(new Error("object storage is away")) };
    await expect(purgeRecordings({ pool, objects: away }, now)).rejects.toThrow("away");
    expect(await count("recordings", sid)).toBe(1);
    expect(await purgeRecordings({ pool, objects }, now)).toBe(1);
  });
});

test("keys outlive a rotation of the installation's secret, and only the vault is sealed again", async () => {
  const sid = newVisit();
  await store(chunkOf(sid));
  const keys = () => rows<{ sealed: Buffer }>("select sealed from recording_keys order by client_id, device");
  const before = await keys();
  const next = keyringOf(`aV7nR2kX9sQ4tZ6bW1yM8cF3hJ5gL0dP,${keyring.newest}`);
  await resealClientSecrets(pool, next);
  const [vault] = await rows<{ recording_vault: string }>(
    `select recording_vault from client_secrets where client_id = ${CLIENT}`,
  );
  expect(await keys()).toEqual(before);
  const after = { pool, objects, keyring: next, latestMask: async () => undefined };
  expect(await openRecording(after, { clientId: CLIENT, sessionId: sid }, by)).toMatchObject({ session_id: sid });
  expect(vault!.recording_vault).toContain(`sealed:1:${fingerprintOf(next.newest)}:`);
});

test("what writes recordings reads no other secret of the client", async () => {
  const asEdge = (statement: string) =>
    transaction(pool, [CLIENT], (tx) => tx.query(statement), { role: "tributary_edge" });
  await expect(asEdge("select hmac_secret from client_secrets")).rejects.toThrow("permission denied");
  await expect(asEdge("select lead_vault from client_secrets")).rejects.toThrow("permission denied");
  await expect(asEdge("delete from recordings")).rejects.toThrow("permission denied");
  const asApp = (statement: string) => transaction(pool, [CLIENT], (tx) => tx.query(statement));
  await expect(asApp("select sealed from recording_keys")).rejects.toThrow("permission denied");
});
