// Windows of pulls in Postgres: who asks for one, who may have it, and how it is counted once.
import { randomUUID } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { forgetPulls, ownedPull } from "../../modules/intake/pulls/owned-pull.ts";
import { pullHealth } from "../../modules/intake/pulls/pull-health.ts";
import { claimPull, knownRows, type Pull, requestPulls, schedulePulls } from "../../modules/intake/pulls/pulls.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
const CLIENT = 7;
const DAY_MS = 86_400_000;
const at = (day: number): number => Date.UTC(2026, 10, day);
const hash = (n: number): string => n.toString(16).padStart(64, "0");
const asked = { from: at(1), to: at(3), actor: "token:1" };

beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 8 });
  await database.adminPool.query(sql`
    insert into sources (source_id, client_id, slug, name, kind, state, vault, pull)
    select n, ${CLIENT}, 's' || n, 'S', 'mmp', state, '', pull::jsonb from (values
      (1, 'active', '{"driver": "mmp", "look_back_days": 2}'), (2, 'paused', '{"driver": "mmp"}'), (3, 'active', null))
      as given (n, state, pull)`);
});
afterAll(() => database.drop());
const emptied = () => database.adminPool.query("delete from pulls; delete from pulled_rows");
const claimed = async (owner: string = randomUUID()) => {
  const pull = (await claimPull(pool, owner)) as Pull;
  return { pull, owned: ownedPull(pool, pull, owner) };
};
const page = { rows: 0, hashes: [], withheld: 0, faults: [], next: { cursor: null, doneTo: at(3) } };
const fault = { code: "source_failed", field: null, message: "the source answers 500" };
const kept = async () => (await database.adminPool.query("select * from pulls order by created_at")).rows;

describe("a window", () => {
  test("is asked for of each active source with settings; what open windows hold is not asked for again", async () => {
    await emptied();
    const ask = (from: number, to: number) => requestPulls(pool, { ...asked, from: at(from), to: at(to) });
    expect(await ask(1, 5)).toEqual({ sources: 1, started: 1, covered: 0, overlapping: 0 });
    expect(await ask(2, 5)).toEqual({ sources: 1, started: 0, covered: 1, overlapping: 0 });
    expect(await ask(4, 6)).toEqual({ sources: 1, started: 1, covered: 0, overlapping: 1 });
    expect(await ask(6, 7)).toEqual({ sources: 1, started: 1, covered: 0, overlapping: 0 });
  });

  test("is not asked for while the client of its source is archived, and health does not miss it", async () => {
    await emptied();
    const made = await writeReference(pool, "test", { clients: [{ client_id: -1, slug: "gone", name: "Gone" }] });
    const client_id = made.idOf("clients", -1);
    const late = JSON.stringify({ rows: 1, new: 0, duplicate: 0, errors: 1 });
    await database.adminPool.query(sql`
      insert into sources (source_id, client_id, slug, name, kind, state, vault, pull, last_pull_at, last_pull_stats)
      values (9, ${client_id}, 'gone', 'G', 'mmp', 'active', '', '{"driver": "mmp"}', '2026-01-01', ${late}::jsonb)`);
    expect((await requestPulls(pool, asked)).sources).toBe(2);
    expect(await pullHealth(pool)).toMatchObject({ isLate: true, stats: { errors: 1 } });
    await writeReference(pool, "test", { clients: [{ client_id, status: "archived" }] });
    await emptied();
    expect((await requestPulls(pool, asked)).sources).toBe(1);
    await schedulePulls(pool, 0);
    expect((await kept()).map(({ source_id }) => source_id)).not.toContain(9);
    expect(await pullHealth(pool)).toMatchObject({ isLate: false, stats: { errors: 0 } });
    await database.adminPool.query("delete from sources where source_id = 9");
  });

  test("that twenty ask for at once is asked for once", async () => {
    await emptied();
    const answers = await Promise.all(Array.from({ length: 20 }, () => requestPulls(pool, asked)));
    expect(answers.filter(({ started }) => started === 1)).toHaveLength(1);
    expect(await kept()).toHaveLength(1);
  });

  test("of the schedule begins where the last one ended less the look-back, once for all keepers", async () => {
    await emptied();
    const to = new Date(Date.now() - 3 * DAY_MS);
    const cursor = JSON.stringify({ to: to.toISOString() });
    await database.adminPool.query(sql`update sources set pull_cursor = ${cursor}::jsonb where source_id = 1`);
    const counts = await Promise.all([1, 2, 3].map(() => schedulePulls(pool, 60_000)));
    expect(counts.toSorted()).toEqual([0, 0, 1]);
    const [window] = await kept();
    expect(window).toMatchObject({ source_id: 1, actor: "schedule", look_back_days: 2, from_at: +to - 2 * DAY_MS });
    expect(Math.abs(window.to_at - Date.now())).toBeLessThan(60_000);
  });

  test("has one lane at a time, and is taken over from one that died", async () => {
    await emptied();
    await requestPulls(pool, asked);
    const { pull, owned } = await claimed();
    await requestPulls(pool, { ...asked, from: at(8), to: at(9) });
    expect(await claimPull(pool, randomUUID())).toBeUndefined();
    await database.adminPool.query("update pulls set lease_until = now() - interval '1 second'");
    const second = await claimed();
    expect(second.pull.pull_id).toBe(pull.pull_id);
    await expect(owned.advance(page)).rejects.toMatchObject({ name: "PullLost", verdict: "transient" });
    await expect(owned.renew()).rejects.toMatchObject({ name: "PullLost" });
    expect(await kept()).toMatchObject([{ pages: 0 }, { pages: 0 }]);
  });

  test("that many lanes claim at once has one of them, every time", async () => {
    for (let round = 0; round < 20; round += 1) {
      await emptied();
      await requestPulls(pool, asked);
      const claims = await Promise.all(Array.from({ length: 8 }, () => claimPull(pool, randomUUID())));
      expect(claims.filter((claim) => claim !== undefined)).toHaveLength(1);
    }
  });

  test("of a lane that lost it leaves no identity behind, so that its rows are still new", async () => {
    await emptied();
    await requestPulls(pool, asked);
    const { pull, owned } = await claimed();
    await database.adminPool.query("update pulls set owner = gen_random_uuid()");
    await expect(owned.advance({ ...page, rows: 1, hashes: [hash(1)] })).rejects.toMatchObject({ name: "PullLost" });
    expect(await knownRows(pool, pull, [hash(1)])).toEqual(new Set());
  });
});

test("a page counts what is new once, whatever lanes have taken it meanwhile", async () => {
  await emptied();
  await requestPulls(pool, asked);
  const { pull, owned } = await claimed();
  const next = { cursor: "2", doneTo: at(1) };
  await owned.advance({ ...page, rows: 4, hashes: [hash(1), hash(2)], withheld: 1, faults: [fault], next });
  expect(await knownRows(pool, pull, [1, 2, 3].map(hash))).toEqual(new Set([hash(1), hash(2)]));
  await owned.advance({ ...page, rows: 2, hashes: [hash(2), hash(3)] });
  await owned.end("done");
  const counted = { rows: 6n, new: 3n, duplicate: 1n, withheld: 1n, errors: 1n };
  expect(await kept()).toMatchObject([{ ...counted, pages: 2, state: "done", faults: [fault] }]);
  const { rows } = await database.adminPool.query("select * from sources where source_id = 1");
  expect(rows[0].last_pull_stats).toMatchObject({ rows: 6, new: 3, duplicate: 1, errors: 1 });
  expect(Math.abs(rows[0].last_pull_at - Date.now())).toBeLessThan(60_000);
});

test("a source that fails is asked again later, and its window shows as an error beside it", async () => {
  await emptied();
  await requestPulls(pool, asked);
  const first = await claimed();
  await first.owned.advance({ ...page, next: { cursor: "2", doneTo: at(1) } });
  await first.owned.failed(fault, 3_600_000, false);
  expect(await kept()).toMatchObject([{ failures: 1, cursor: "2", state: "running", faults: [fault] }]);
  expect(await claimPull(pool, randomUUID())).toBeUndefined();
  await database.adminPool.query("update pulls set next_try_at = now()");
  const second = await claimed();
  await second.owned.failed(fault, 0, true);
  expect(await kept()).toMatchObject([{ failures: 2, cursor: null }]);
  const { rows } = await database.adminPool.query("select last_pull_stats as stats from sources where source_id = 1");
  expect(rows[0].stats).toMatchObject({ errors: 2 });
});

test("windows that ended long ago are forgotten, open ones never", async () => {
  await emptied();
  await requestPulls(pool, asked);
  await requestPulls(pool, { ...asked, from: at(8), to: at(9) });
  await database.adminPool.query(`update pulls set state = 'done', ended_at = now() - interval '31 days'
    where from_at = '2026-11-01T00:00:00Z'`);
  expect(await forgetPulls(pool)).toBe(1);
  expect(await kept()).toMatchObject([{ state: "waiting" }]);
});

test("who may edit a source may not allow a private network", async () => {
  const allow = "insert into outbound_networks (network, reason) values ('10.0.0.0/8', 'mine')";
  await expect(pool.query(allow)).rejects.toThrow(/permission denied/);
  expect((await pool.query("select * from outbound_networks")).rows).toEqual([]);
});
