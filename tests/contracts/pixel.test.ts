// The part of Postgres that the pixel host keeps in memory, and the rows that it writes, on a real
// Postgres.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { transaction } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { defaultPixel, savePixelConfig } from "../../modules/catalog/pixel/pixel-config.ts";
import { openPixels } from "../../modules/catalog/pixel/pixel-picture.ts";
import { openSightings, readSightings } from "../../modules/catalog/pixel/sightings.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 2 });
});
afterAll(() => database.drop());

const save = (clientId: number, over: object) =>
  transaction(pool, [clientId], (tx) =>
    savePixelConfig(tx, clientId, { ...defaultPixel, jurisdiction: "MX", consent_default: 255, ...over }),
  );

test("a configuration is known within a second, and again when it changes", async () => {
  const pixels = openPixels(pool, { pollMs: 50 });
  try {
    await pixels.ready;
    expect(pixels.settingsOf(7)).toEqual(defaultPixel);
    for (const allowed_domains of [["shop.example"], ["other.example", "*.other.example"], []]) {
      await save(7, { allowed_domains });
      await until("the change is known", 30_000, () =>
        expect(pixels.settingsOf(7)).toEqual({ ...defaultPixel, allowed_domains }),
      );
    }
    expect(pixels.settingsOf(8)).toEqual(defaultPixel);
  } finally {
    await pixels.close();
  }
});

const read = (clientId: number, clients: readonly number[] = [clientId]) =>
  transaction(pool, clients, (tx) => readSightings(tx, clientId, clients, Date.now() - 3_600_000));

test("sightings are counted by page and code, over writes and hosts, and only their client sees them", async () => {
  const hosts = [openSightings(pool), openSightings(pool)];
  for (const round of [1, 2])
    for (const host of hosts) {
      host.note({ client_id: 7, code: "taken", subject: "https://shop.example", count: 3 });
      host.note({ client_id: 7, code: "clock_skew", subject: "", ms: round * 1_000 });
      host.note({ client_id: 8, code: "taken", subject: "half \ud800 and \u0000" });
      await host.flush();
    }
  await Promise.all(hosts.map((host) => host.close()));
  expect(await read(7)).toMatchObject([
    { code: "taken", subject: "https://shop.example", count: 12 },
    { code: "clock_skew", count: 4, largest_ms: 2_000 },
  ]);
  expect(await read(8)).toMatchObject([{ subject: "half \ufffd and ", count: 4 }]);
  expect(await read(7, [8])).toEqual([]);
});

test("a sender that makes up pages fills nothing", async () => {
  const host = openSightings(pool);
  for (let n = 0; n < 5_000; n += 1) host.note({ client_id: 9, code: "taken", subject: `https://${n}.example` });
  await host.close();
  const seen = await read(9);
  expect(seen).toHaveLength(101);
  expect(seen[0]).toMatchObject({ subject: "", count: 4_900 });
});

test("what Postgres does not take is written when it does", async () => {
  const host = openSightings(pool);
  host.note({ client_id: 10, code: "taken", subject: "" });
  await database.adminPool.query("alter table pixel_sightings rename to away");
  await host.flush();
  await database.adminPool.query("alter table away rename to pixel_sightings");
  host.note({ client_id: 10, code: "taken", subject: "" });
  await host.close();
  expect(await read(10)).toMatchObject([{ count: 2 }]);
});
