// How long each client keeps its events, by the last saved setting, and that only one purge works
// at a time.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { archivePurge } from "../../apps/keeper/schedules/archive.ts";
import { withLockOrThrow } from "../../infra/postgres/advisory-lock.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { clientRetentions, PurgeBusy, purgeArchive } from "../../modules/privacy/retention.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterAll(() => database.drop());

test("a client keeps its events as long as was saved last, 24 months unless it says less", async () => {
  const shop = (id: number, slug: string, more: object = {}) => ({ client_id: id, slug, name: slug, ...more });
  const saved = await writeReference(pool, "test", {
    clients: [shop(-1, "one"), shop(-2, "two", { retention_months: 3 })],
  });
  const [one, two] = [saved.idOf("clients", -1), saved.idOf("clients", -2)];
  await writeReference(pool, "test", { clients: [shop(one, "one", { retention_months: 6, status: "archived" })] });
  expect(await clientRetentions(pool)).toEqual([
    { clientId: one, slug: "one", months: 6 },
    { clientId: two, slug: "two", months: 3 },
  ]);
});

test("the keeper purges once a day, and reports a file that it could not read", async () => {
  const objects = inMemoryObjects();
  const old = new Date(Date.UTC(2026, 0, 10, 5)).toISOString().slice(0, 13);
  const key = `archive/events.raw/${old}/07-000000000000-000000000001.avro`;
  await objects.put(key, Buffer.from("damaged"));
  const logged: unknown[] = [];
  let now = Date.UTC(2026, 10, 22, 12);
  const log = { warn: (event: string, fields?: object) => void logged.push([event, fields]) };
  const schedule = archivePurge({ pool, objects, log: log as never, clock: () => now });
  const turn = () => schedule.work(() => false);
  expect([await turn(), await turn()]).toEqual([0, 0]);
  expect(logged).toEqual([["archive.not_purged", expect.objectContaining({ key })]]);
  now += 86_400_000;
  await turn();
  expect(logged).toHaveLength(2);
  const busy = () => archivePurge({ pool, objects, log: log as never, clock: () => now }).work(() => false);
  const answer = await withLockOrThrow(pool, "tributary.archive-purge", () => new Error("taken"), busy);
  expect(answer).toBe("busy");
});

test("of two purges one works, and a dry one disturbs no one", async () => {
  const settings = { now: Date.now(), isClosing: () => false };
  const purge = (isDry = false) => purgeArchive(pool, inMemoryObjects(), "events.raw", { ...settings, isDry });
  await withLockOrThrow(
    pool,
    "tributary.archive-purge",
    () => new Error("taken"),
    async () => {
      await expect(purge()).rejects.toThrow(PurgeBusy);
      expect(await purge(true)).toMatchObject({ records: 0 });
    },
  );
  expect(await purge()).toMatchObject({ records: 0, stoppedAt: null });
});
