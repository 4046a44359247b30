// The figures that alert rules watch, read from real stores: each shows its own fault alone.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { waitingMails } from "../../modules/base/mails/waiting-mails.ts";
import { clientIds } from "../../modules/catalog/clients/client-ids.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { ledgerSums } from "../../modules/figures/money-days/ledger-sums.ts";
import { silentClients } from "../../modules/figures/rollups/silent-clients.ts";
import { pullAge } from "../../modules/intake/pulls/pull-health.ts";
import { openHolds, recordHosting } from "../../modules/log/groups/group-holds.ts";
import { sinksReadAgain } from "../../modules/log/groups/read-again.ts";
import { pipeline } from "../../topology.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

let database: FreshDatabase;
let pool: pg.Pool;
let clickhouse: Clickhouse;
let clients: readonly [number, number];
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
  clickhouse = openClickhouse(sharedStack().env.CLICKHOUSE_URL!);
  const made = await writeReference(pool, "test", {
    clients: [
      { client_id: -1, slug: "one", name: "One" },
      { client_id: -2, slug: "two", name: "Two" },
    ],
  });
  clients = [made.idOf("clients", -1), made.idOf("clients", -2)];
});
afterAll(() => Promise.all([database.drop(), clickhouse.close()]));

test("every client is gone through once, however often it was changed", async () => {
  await writeReference(pool, "test", { clients: [{ client_id: clients[0], name: "Uno" }] });
  expect(await clientIds(pool, "tributary_keeper")).toEqual([...clients].toSorted((a, b) => a - b));
});

const again = async (): Promise<readonly string[]> =>
  [...(await sinksReadAgain(pool, pipeline))].flatMap(([sink, isAgain]) => (isAgain ? [sink] : []));

test("sinks at or behind a group that is set back are read again until it has caught up", async () => {
  expect(await again()).toEqual([]);
  const holds = openHolds(pool);
  const host = (group: string, nodes: readonly string[], topic: string) =>
    recordHosting(pool, { group, topic, nodes, instance: "w" });
  await host("tributary.analytics", ["analytics", "product-sales"], "events.attributed");
  await host("tributary.commission", ["commission"], "conversions");
  const hold = (group: string, kind: "rewind" | "set_aside") =>
    holds.take({ group, operation: `op ${group}`, kind, actor: "ada", reason: null });
  await hold("tributary.analytics", "rewind");
  expect(await again()).toEqual(["analytics", "product-sales"]);
  await holds.release("op tributary.analytics");
  expect(await again(), "its workers read, and it has not caught up").toEqual(["analytics", "product-sales"]);
  await holds.end("op tributary.analytics");
  await hold("tributary.commission", "rewind");
  expect(await again()).toEqual(["ledger"]);
  await holds.end("op tributary.commission");
  await hold("tributary.commission", "set_aside");
  expect(await again(), "a record that is set aside brings nothing again").toEqual([]);
  await holds.end("op tributary.commission");
});

test("a job that reads the log again names its sinks while it runs", async () => {
  await database.adminPool.query(sql`
    insert into moves (operation_id, move, subject, request, plan, plan_id, actor, status)
    values ('op_00000000-0000-4000-8000-000000000001', 'replay', 's', '{}', '{"nodes": ["conversions"]}',
      gen_random_uuid(), 'ada', 'running')`);
  expect(await again()).toEqual(["conversions"]);
  await database.adminPool.query("update moves set status = 'completed'");
  expect(await again()).toEqual([]);
});

test("the ledger balances, and a line that was lost past the product shows, also beside one too many", async () => {
  const lines = (client: number, entry: string, ...amounts: readonly number[]) =>
    Promise.all(
      amounts.map((amount, n) =>
        database.adminPool.query(sql`
          insert into ledger_lines values (${client}, ${entry}, ${n + 1}, 'expense:client', 'MXN', ${amount})`),
      ),
    );
  // As the owner of a broken backup might write them: past the triggers.
  await database.adminPool.query("alter table ledger_lines disable trigger all");
  await lines(clients[0], "led_1", 500, -500);
  await lines(clients[1], "led_2", 700, -700);
  expect(await ledgerSums(pool, clients)).toEqual([{ currency: "MXN", amount: 0 }]);
  await lines(clients[0], "led_3", 100);
  await lines(clients[1], "led_4", -100);
  expect(await ledgerSums(pool, clients)).toEqual([{ currency: "MXN", amount: 2 }]);
});

test("a client that was busy and has sent nothing for 15 minutes is silent; a small one may be", async () => {
  const base = 700_000_000 + (Date.now() % 1_000_000) * 10;
  const [busy, silent, small, gone] = [base, base + 1, base + 2, base + 3];
  const minutes: readonly (readonly [client: number, ago: number, events: number])[] = [
    ...[[busy, 30, 500] as const, [busy, 2, 1] as const],
    [silent, 20, 100],
    [small, 20, 99],
    [gone, 90, 5_000],
  ];
  const now = Math.floor(Date.now() / 60_000) * 60;
  const rows = minutes.map(([client_id, ago, events]) => ({
    ...{ client_id, grain: "minute", bucket: now - ago * 60, events, version: 1 },
  }));
  await clickhouse.insert({ table: "rollups", values: rows, format: "JSONEachRow" });
  expect(await silentClients(clickhouse, [busy, silent, small, gone])).toEqual([silent]);
  expect(await silentClients(clickhouse, [])).toEqual([]);
});

test("the source that waits longest for its pull is the age; without one it is 0", async () => {
  expect(await pullAge(pool)).toBe(0);
  await database.adminPool.query(sql`
    insert into sources (source_id, client_id, slug, name, kind, state, vault, pull, last_pull_at, updated_at)
    select n, ${clients[0]}, 's' || n, 'S', 'mmp', state, '', '{"driver": "mmp"}', clock_timestamp() - ago,
      clock_timestamp() - interval '10 minutes'
    from (values (1, 'active', interval '2 hours'), (2, 'paused', interval '9 hours'), (3, 'active', null))
      as given (n, state, ago)`);
  expect(await pullAge(pool)).toBeCloseTo(7_200, -1);
  await database.adminPool.query("delete from sources where source_id = 1");
  expect(await pullAge(pool), "one that was never pulled counts from its last change").toBeCloseTo(600, -1);
});

test("mails and alerts that no server takes wait, until they are sent or a day has passed", async () => {
  const none = [
    { kind: "mail", count: 0, seconds: 0 },
    { kind: "alert", count: 0, seconds: 0 },
  ];
  expect(await waitingMails(pool, true)).toEqual(none);
  await database.adminPool.query(sql`
    insert into mails (happening, recipient, template, locale, facts, created_at)
    select 'invitation:' || n, 'ana@shop.example', 'invitation_client', 'en', '{}', clock_timestamp() - ago
    from (values (1, interval '2 hours'), (2, interval '1 hour'), (3, interval '25 hours')) as given (n, ago)`);
  await database.adminPool.query(sql`
    insert into system_alerts (incident_id, service, status, severity, reason, told_at)
    values ('i', 'cache_store', 'down', 'normal', 'r', clock_timestamp())`);
  const [mail, alert] = await waitingMails(pool, true);
  expect([mail!.count, alert!.count]).toEqual([2, 1]);
  expect(mail!.seconds).toBeCloseTo(7_200, -1);
  expect((await waitingMails(pool, false))[1], "alerts are only kept where no server is set").toEqual(none[1]);
  await database.adminPool.query("update mails set sent_at = clock_timestamp()");
  await database.adminPool.query("update system_alerts set mailed_at = clock_timestamp()");
  expect(await waitingMails(pool, true)).toEqual(none);
});
