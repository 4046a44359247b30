// What a reprocess asks ClickHouse: claims by their orders, and events by their receipt and device.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate } from "../../infra/clickhouse/migrate.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { indexedClaims } from "../../modules/money/reprocess/running/claim-index.ts";
import { eraseEvents } from "../../modules/privacy/erasure/events.ts";
import type { ErasureTarget } from "../../modules/privacy/erasure/target.ts";
import { purgeEvents } from "../../modules/privacy/purge-events.ts";
import { journey } from "../../processors/attribute/journey.ts";
import { person } from "../../processors/enrich/identity.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";
import { countReceived, receivedAndStoredAfter, shapingEvents } from "../../sinks/analytics/receipt-window.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { claimPositionRows } from "../../sinks/claim-positions/rows.ts";
import { claimPositions } from "../../sinks/claim-positions/table.ts";
import { type ClickhouseTable, clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, claim, hourMs, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { until } from "../support/waits.ts";

const { env } = sharedStack();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
beforeAll(() => migrate(clickhouse));
afterAll(() => clickhouse.close());

/** What shaped a device is kept for 90 days from now on. */
const now = Math.floor(Date.now() / 1_000) * 1_000;
let tenants = 700_000_000 + (now % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
let tokens = 0;
const insert = <Row>(table: ClickhouseTable<Row>, rows: readonly Row[]): Promise<void> =>
  clickhouseStore(clickhouse).insert(table, rows, `reprocess/${now}/${++tokens}`);
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;

const claimAt = (data: Partial<Claim>, offset: number, receivedAt: number) =>
  claimPositionRows(
    recorded(topics.claims, claim(data), { receivedAt, position: { topic: topics.claims.name, partition: 2, offset } }),
  );

test("the claims of the orders of a window are found, each once, and of no other client's", async () => {
  const [client, other] = [nextTenant(), nextTenant()];
  const rows = [
    claimAt({ client_id: client, order_key: "o:o1", kind: "conversion" }, 10, now - 50 * hourMs),
    claimAt({ client_id: client, order_key: "o:o1", kind: "conversion" }, 20, now),
    claimAt({ client_id: client, order_key: "o:o1", kind: "refund" }, 30, now + 400 * hourMs),
    claimAt({ client_id: client, order_key: "o:o2", kind: "conversion" }, 40, now + hourMs),
    // The refund of an order that sold nothing in the window.
    claimAt({ client_id: client, order_key: "o:o3", kind: "refund" }, 50, now),
    claimAt({ client_id: other, order_key: "o:o1", kind: "conversion" }, 60, now + hourMs),
  ].flat();
  // A sink reads again what it has not committed.
  await insert(claimPositions, rows);
  await insert(claimPositions, rows.slice(1));
  const window = { from: now, to: now + 1_000 };
  const found = await indexedClaims(clickhouse, [client, other], window);
  expect(found.orders).toBe(1);
  expect(found.claims).toEqual([
    { partition: 2, offset: 10, receivedAt: now - 50 * hourMs, isConversion: true },
    { partition: 2, offset: 20, receivedAt: now, isConversion: true },
    { partition: 2, offset: 30, receivedAt: now + 400 * hourMs, isConversion: false },
  ]);
  expect(await indexedClaims(clickhouse, [other], window)).toEqual({ orders: 0, claims: [] });
  expect(await indexedClaims(clickhouse, [], window)).toEqual({ orders: 0, claims: [] });
});

const event = (client_id: number, n: number, over: Partial<EventReceived>, receivedAt = now) =>
  recorded(topics.eventsAttributed, attributed({ client_id, event_id: uuid(n), did: "phone", ts: now, ...over }), {
    receivedAt,
  });

test("of a device those events come that stages remember something of, as memory names them", async () => {
  const client = nextTenant();
  const email = JSON.stringify({ email: "a".repeat(64) });
  const all = [
    event(client, 1, { t: "click", order_id: null, value_minor: null, currency: null, props: "{}" }),
    event(client, 2, { t: "page_view", order_id: null, value_minor: null, currency: null, props: email }),
    event(client, 3, { t: "custom", custom_name: "login", order_id: null, props: email }),
    event(client, 4, { t: "custom", custom_name: "login", order_id: null, props: "{}" }),
    event(client, 5, { t: "purchase", props: '{"user_id":"ana"}' }),
    event(client, 6, {
      t: "custom",
      custom_name: "identity_unlinked",
      source: "decision",
      order_id: null,
      props: '{"kind":"email","identifier":"x"}',
    }),
    event(client, 7, { t: "click", did: "laptop", order_id: null, props: "{}" }),
    event(client, 8, { t: "click", ts: now - 40 * 24 * hourMs, order_id: null, props: "{}" }),
  ];
  await insert(events, all.flatMap(eventRows));
  const asked = { devices: ["phone", "tablet"], since: now - 30 * 24 * hourMs };
  const idsOf = (rows: Awaited<ReturnType<typeof shapingEvents>>) => rows.map((one) => one.event.event_id).sort();
  const shaping = await shapingEvents(clickhouse, scopeOf(client), { ...asked, clicksOnly: false });
  // A purchase without an identifier only reads.
  const remembered = all.filter(({ data, ...of }) => {
    const one = { ...of, data: data.event };
    const isOfJourney = data.event.t === "click" && journey.keysOf({ ...of, data }).length > 0;
    return data.event.did === "phone" && data.event.ts === now && (isOfJourney || person.keysOf(one).length > 0);
  });
  expect(idsOf(shaping)).toEqual(remembered.map(({ id }) => id).sort());
  expect(idsOf(shaping)).toEqual([1, 3, 5, 6].map(uuid));
  expect(shaping.find((one) => one.event.event_id === uuid(3))).toMatchObject({
    ...{ event: { did: "phone", props: email, client_id: client }, received_at: now },
    enrichment: { consent: 0xff },
  });
  expect(idsOf(await shapingEvents(clickhouse, scopeOf(client), { ...asked, clicksOnly: true }))).toEqual([uuid(1)]);
});

test("what a window received is counted, and what was stored long after it is named", async () => {
  const client = nextTenant();
  const all = [1, 2, 3].map((n) => event(client, n, {}, now - n * hourMs));
  await insert(events, all.flatMap(eventRows));
  await insert(events, all.slice(0, 1).flatMap(eventRows));
  const window = { from: now - 2 * hourMs, to: now };
  const scope = scopeOf(client);
  expect(await countReceived(clickhouse, scope, window)).toBe(2);
  const stored = (since: number, limit = 10) => receivedAndStoredAfter(clickhouse, scope, window, { since, limit });
  expect((await stored(now)).toSorted()).toEqual([1, 2].map(uuid));
  expect(await stored(now, 1)).toHaveLength(1);
  expect(await stored(Date.now() + hourMs)).toEqual([]);
});

const indexedOf = async (client_id: number): Promise<readonly string[]> => {
  const query = `select toString(event_id) as id from device_events final where client_id = ${client_id} order by id`;
  const rows = await (await clickhouse.query({ query, format: "JSONEachRow" })).json<{ id: string }>();
  return rows.map(({ id }) => id);
};

test("the index of devices loses what is erased, and what a client keeps no longer", async () => {
  const client = nextTenant();
  const day = 24 * hourMs;
  const clicks = [1, 2, 3].map((n) =>
    event(client, n, { t: "click", order_id: null, props: "{}", ts: now - (n === 3 ? 40 : 1) * day }),
  );
  await insert(events, clicks.flatMap(eventRows));
  expect(await indexedOf(client)).toEqual([1, 2, 3].map(uuid));
  const found = { eventId: uuid(1), did: "phone", persons: [], mark: "0", minute: 0, isOfMoney: false };
  await eraseEvents(clickhouse, { clientId: client, subject: { orderName: null } } as unknown as ErasureTarget, [
    found,
  ]);
  expect(await indexedOf(client)).toEqual([2, 3].map(uuid));
  await until("what is old is purged", 30_000, async () => {
    await purgeEvents(clickhouse, [{ clientId: client, months: 1 }], now);
    expect(await indexedOf(client)).toEqual([uuid(2)]);
  });
});
