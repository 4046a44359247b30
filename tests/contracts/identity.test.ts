// Identity edges on a real Postgres: bounded whatever devices send, ended in time, and erased with
// their subject.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { purgeIdentityLinks } from "../../modules/privacy/persons/purge-identity-links.ts";
import { linksOfDevice, recordUnlink } from "../../modules/privacy/persons/unlink.ts";
import { suppress } from "../../modules/privacy/suppressions.ts";
import { leadReceived } from "../../processors/admit/outbox/announcements.ts";
import { type IdentityLinkRow, identityEdges, MOST_EDGES } from "../../sinks/identity/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { clientId, dayMs, noon } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool();
});
afterAll(() => database.drop());

const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;
const hex = (text: string): string => Buffer.from(text).toString("hex").padEnd(64, "0");
const row = (n: number, over: Partial<IdentityLinkRow> = {}): IdentityLinkRow => ({
  client_id: clientId,
  did: `d${n}`,
  identifier: hex("phone"),
  kind: "phone",
  method: "phone_on_event",
  confidence: 100,
  event_id: uuid(n),
  at: noon + n,
  expires_at: noon + n + dayMs,
  unlinked_at: null,
  ...over,
});
const write = (rows: readonly IdentityLinkRow[]) =>
  postgresStore(pool).within({ tenants: [...new Set(rows.map(({ client_id: id }) => id))], token: "" }, (each) =>
    identityEdges.write(rows, each),
  );
const stored = async (where: string): Promise<readonly { readonly did: string; readonly identifier: string }[]> =>
  (await database.adminPool.query(`select * from identity_edges where ${where} order by did, kind, identifier`)).rows;

/** A fixed shuffle: each third item, then the next thirds. */
const mixed = <T>(items: readonly T[]): readonly T[] =>
  [2, 0, 1].flatMap((rest) => items.filter((_, n) => n % 3 === rest));

test("what a thousand devices show links no more, and the first ones stay in whatever order they come", async () => {
  const all = Array.from({ length: MOST_EDGES + 30 }, (_, n) => row(n));
  const shuffled = mixed(all);
  for (let at = 0; at < all.length; at += 200) await write(shuffled.slice(at, at + 200));
  await write([row(1, { client_id: clientId + 1 })]);
  const kept = await stored(`client_id = ${clientId} and kind = 'phone'`);
  expect(new Set(kept.map(({ did }) => did))).toEqual(new Set(all.slice(0, MOST_EDGES).map(({ did }) => did)));
  await write(all.toReversed());
  expect(await stored(`client_id = ${clientId} and kind = 'phone'`)).toEqual(kept);
  expect(await stored(`client_id = ${clientId + 1}`)).toHaveLength(1);
});

test("a device that shows a session after the other is bounded too, and keeps its other edges", async () => {
  const did = "busy";
  const session = (n: number) => row(n, { did, kind: "session", identifier: hex(`session ${n}`) });
  await write([row(9_999, { did, kind: "email", identifier: hex("ana") })]);
  await write(mixed(Array.from({ length: MOST_EDGES + 30 }, (_, n) => session(n))));
  const kept = await stored(`did = '${did}'`);
  expect(kept).toHaveLength(MOST_EDGES + 1);
  const has = (n: number) => kept.some(({ identifier }) => identifier === hex(`session ${n}`));
  expect([has(0), has(MOST_EDGES - 1), has(MOST_EDGES)]).toEqual([true, true, false]);
});

test("an edge that ran out stays 90 days for erasures, then it goes, in turns of bounded size", async () => {
  const kind = "login";
  await write(Array.from({ length: 7 }, (_, n) => row(n, { kind, identifier: hex("login"), expires_at: noon + n })));
  expect(await purgeIdentityLinks(pool, noon + 90 * dayMs)).toBe(0);
  expect(await purgeIdentityLinks(pool, noon + 90 * dayMs + 5, () => false, 2)).toBe(5);
  expect((await stored(`kind = '${kind}'`)).map(({ did }) => did)).toEqual(["d5", "d6"]);
  expect(await purgeIdentityLinks(pool, noon + 91 * dayMs, () => true)).toBe(0);
});

test("who is erased by an e-mail has no edge that their events proved; a device's other edges stay", async () => {
  const why = { since: noon + dayMs, reason: "asked", actor: "ana" };
  const hers = hex("a device of hers");
  const shows = (n: number, did: string, kind: string, who: string): IdentityLinkRow =>
    row(n, { did, kind, identifier: hex(who) });
  const ofThem = `did in ('${hers}', 'lent', 'other')`;
  await write([
    shows(20_001, hers, "email", "eve"),
    shows(20_001, hers, "fingerprint", "her browser"),
    shows(20_002, hers, "email", "her son"),
    shows(20_003, "lent", "email", "eve"),
    shows(20_004, "other", "email", "bob"),
    { ...shows(20_005, hers, "email", "eve"), client_id: clientId + 1 },
  ]);
  await suppress(pool, clientId, [{ kind: "email", subject: hex("eve") }], why);
  const left = await stored(ofThem);
  expect(left.map(({ did, identifier }) => [did, identifier])).toEqual([
    [hers, hex("eve")],
    [hers, hex("her son")],
    ["other", hex("bob")],
  ]);
  expect(left[0]).toMatchObject({ client_id: clientId + 1 });
  await suppress(pool, clientId, [{ kind: "did", subject: hers }], why);
  expect((await stored(ofThem)).map(({ did }) => did)).toEqual([hers, "other"]);
});

test("a decision ends an edge for good, in whatever order it comes, and is written with its audit", async () => {
  const did = hex("a shared device");
  const [edge, later] = [row(1, { did, kind: "email" }), row(50, { did, kind: "email" })];
  const ended = row(30, { did, kind: "email", method: "unlinked_by_decision", confidence: 1, unlinked_at: noon + 30 });
  for (const [n, order] of [
    [edge, ended, later],
    [ended, later, edge],
    [later, ended, edge, ended],
  ].entries()) {
    for (const one of order) await write([{ ...one, did: `${did.slice(1)}${n}` }]);
    const [kept] = await stored(`did = '${did.slice(1)}${n}'`);
    expect(kept).toMatchObject({ first_seen: noon + 1, last_seen: noon + 50, unlinked_at: noon + 30 });
    expect(kept).toMatchObject({ method: "phone_on_event", evidence_event_id: uuid(1), confidence: 100 });
  }
  await write([edge, { ...edge, did: "another" }]);
  const [known] = await transaction(pool, [clientId], (tx) => linksOfDevice(tx, clientId, did));
  expect(known).toMatchObject({ kind: "email", evidence_event_id: uuid(1), unlinked_at: null, other_devices: 1 });
  const decision_id = "00000000-0000-4000-8000-000000000001";
  const said = { decision_id, client_id: clientId, did, kind: "email", identifier: known!.identifier };
  await transaction(pool, [clientId], (tx) =>
    recordUnlink(tx, { ...said, actor: "operator:ana", reason: "a shared phone", at: noon }, known!),
  );
  const { rows } = await database.adminPool.query("select topic, record from outbox where client_id = $1", [clientId]);
  expect(rows).toMatchObject([{ topic: "events.raw", record: { event: { event_id: decision_id, did } } }]);
  expect(unlinkedBy(leadReceived({ record: rows[0].record }).data)).toEqual({
    kind: "email",
    identifier: known!.identifier,
  });
  const audited = await database.adminPool.query("select action, entity, after from audit where request_id = $1", [
    decision_id,
  ]);
  expect(audited.rows).toMatchObject([
    { action: "identity.unlinked", after: { decision_id, reason: "a shared phone" } },
  ]);
});
