// Law G1: the latest choice of a device decides what each read shows of it, also for the past,
// however often, late and unordered its choices arrive.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate } from "../../infra/clickhouse/migrate.ts";
import { count, flag, optional, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import { figuresByDay } from "../../modules/figures/rollups/rollup-reads.ts";
import { markWithdrawn } from "../../modules/figures/rollups/withdrawn-devices.ts";
import { latestMasks } from "../../modules/privacy/masks.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { openHistory } from "../../sinks/analytics/history.ts";
import { eventCounts, eventVersions, latestEvents } from "../../sinks/analytics/reads.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { consentRows } from "../../sinks/consent/rows.ts";
import { consentChanges } from "../../sinks/consent/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { Table } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, choice, dayMs, noon, purchase, received, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const started = Date.now();
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
let clickhouse: Clickhouse;
beforeAll(async () => {
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
  await migrate(clickhouse);
});
afterAll(async () => {
  // Leaves no waiting marks for the next file on this stack.
  await settle();
  await Promise.all([clickhouse.close(), pool.end()]);
});

let tenants = 900_000_000 + (started % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;
const span = { from: noon - 30 * dayMs, to: noon + 30 * dayMs };
const mine = "a".repeat(64);
const other = "b".repeat(64);

let writes = 0;
/** Writes rows, then their marks, as the sink's runner does; without marks it died in between. */
const write = async <Row>(table: Table<Row>, rows: readonly Row[], isMarked = true): Promise<void> => {
  const batch = { tenants: [...new Set(rows.map(table.tenantOf))], token: `consent/${started}/${++writes}` };
  await clickhouseStore(clickhouse).within(batch, (each) => table.write(rows, each));
  const { marks } = table;
  if (isMarked && marks !== undefined)
    await postgresStore(pool).within(batch, (each) => marks.into.write(marks.of(rows), each));
};
const rowsOf = (event: EventReceived, at = noon, offset = 0) =>
  consentRows(
    recorded(topics.eventsAttributed, attributed(event), {
      receivedAt: at,
      position: { topic: "events.raw", partition: 0, offset },
    }),
  );
const choose = (client_id: number, mask: number, at: number, isMarked = true) =>
  write(
    consentChanges,
    rowsOf(choice({ client_id, did: mine, event_id: uuid(at), ts: noon + at }, mask), noon + at),
    isMarked,
  );

const seen = { url: "https://shop.example/x", ref: "https://news.example/", ip: "192.0.2.1", ua: "Firefox" };
/** A page view and an order of one device, and a page view of another. */
const visit = async (client_id: number): Promise<void> => {
  const given = [
    received({ ...seen, client_id, did: mine, event_id: uuid(1) }),
    purchase({ ...seen, client_id, did: mine, event_id: uuid(2), order_id: `o${client_id}` }),
    received({ ...seen, client_id, did: other, event_id: uuid(3) }),
  ];
  const known = { enrichment: { person: `email:${mine}`, region: "CMX", city: "Mexico City", asn: 1 } };
  await write(
    events,
    given.flatMap((event) => eventRows(recorded(topics.eventsAttributed, { ...attributed({}, known), event }))),
  );
};

const settle = async (): Promise<void> => {
  while ((await markWithdrawn(pool, clickhouse, 1_000)) > 0);
  await computeWaiting(pool, clickhouse, 50);
};

const shown = {
  event_id: text("event_id"),
  consent: count("consent"),
  url: optional(text("url")),
  ref: optional(text("ref")),
  ip: optional(text("ip")),
  ua: optional(text("ua")),
  region: optional(text("region")),
  city: optional(text("city")),
  person: optional(text("person")),
  kept: flag("extended_retention"),
};
/** What every read of events shows of the visit. */
const reads = async (client_id: number) => {
  const scope = scopeOf(client_id);
  const rows = await readRows(clickhouse, scope, { from: "events_current", columns: shown, orderBy: ["event_id"] });
  const explained = await Promise.all([1, 2, 3].map((n) => eventVersions(clickhouse, scope, uuid(n))));
  const tried = await openHistory(clickhouse).end(client_id, { from: span.from, to: span.to }, 10);
  return {
    rows,
    listed: (await latestEvents(clickhouse, scope, 10)).map(({ event_id }) => event_id).toSorted(),
    counted: (await eventCounts(clickhouse, scope))[0]?.events,
    explained: explained.map(([row]) => (row === undefined ? null : { url: row.url, consent: row.consent })),
    tried: tried.times.length,
  };
};
const figures = async (client_id: number) => {
  const scope = scopeOf(client_id);
  const days = await figuresByDay(clickhouse, scope, span);
  const [all] = await readRows(clickhouse, scope, {
    from: "rollup_dimensions",
    columns: { events: count("sum(events)"), visitors: count("uniqCombined64Merge(14)(visitors)") },
    where: [{ expression: "grain = 'day' and dimension = 'all'", values: [] }],
  });
  return {
    events: days.reduce((sum, day) => sum + day.events, 0),
    conversions: days.reduce((sum, day) => sum + day.conversions, 0),
    revenue: days.reduce((sum, day) => sum + day.revenue_minor, 0n),
    dimensions: all?.events,
    visitors: all?.visitors,
  };
};
const whole = { ...seen, region: "CMX", city: "Mexico City", person: `email:${mine}`, consent: 0xff, kept: true };
const stranger = { ...whole, event_id: uuid(3) };

describe("a withdrawal of the bit", () => {
  test("0x01 hides what the device saw from every read, leaves orders bare, and is undone by a consent", async () => {
    const client = nextTenant();
    await visit(client);
    await settle();
    const before = await reads(client);
    const counted = await figures(client);
    expect(before.rows).toEqual([{ ...whole, event_id: uuid(1) }, { ...whole, event_id: uuid(2) }, stranger]);
    expect(counted).toMatchObject({ events: 3, conversions: 1, dimensions: 3, visitors: 2 });

    await choose(client, 0xfe, 10);
    const bare = { url: null, ref: null, ip: null, ua: null, region: null, city: null, person: null };
    expect(await reads(client)).toEqual({
      rows: [{ ...whole, ...bare, event_id: uuid(2), consent: 0xfe }, stranger],
      listed: [uuid(2), uuid(3)],
      counted: 2,
      explained: [null, { url: null, consent: 0xfe }, { url: seen.url, consent: 0xff }],
      tried: 2,
    });
    await settle();
    expect(await figures(client)).toEqual({ ...counted, events: 2, dimensions: 2, visitors: 1 });

    await choose(client, 0xff, 20);
    await settle();
    expect(await reads(client)).toEqual(before);
    expect(await figures(client)).toEqual(counted);
  });

  test("0x02 leaves everything but the person", async () => {
    const client = nextTenant();
    await visit(client);
    await choose(client, 0xfd, 10);
    const { rows, counted } = await reads(client);
    expect(rows.slice(0, 2)).toEqual([1, 2].map((n) => ({ ...whole, event_id: uuid(n), person: null, consent: 0xfd })));
    expect(counted).toBe(3);
  });

  test.each([
    ["0x04", 0xfb, true],
    ["0x08", 0xf7, true],
    ["0x10", 0xef, true],
    ["0x20", 0xdf, true],
    ["0x40", 0xbf, false],
  ])("%s shows in the mask of the past, and hides nothing of it", async (_, mask, kept) => {
    const client = nextTenant();
    await visit(client);
    await choose(client, mask, 10);
    const { rows, explained } = await reads(client);
    expect(rows).toEqual([
      ...[1, 2].map((n) => ({ ...whole, event_id: uuid(n), consent: mask, kept })),
      { ...stranger },
    ]);
    expect(explained[0]).toEqual({ url: seen.url, consent: mask });
  });

  test("takes no other client's device along, whatever its id", async () => {
    const [client, neighbour] = [nextTenant(), nextTenant()];
    await Promise.all([visit(client), visit(neighbour)]);
    await choose(client, 0, 10);
    expect((await reads(neighbour)).counted).toBe(3);
    expect([...(await latestMasks(clickhouse, neighbour, [mine]))]).toEqual([]);
    expect([...(await latestMasks(clickhouse, client, [mine, other]))]).toEqual([[mine, 0]]);
  });

  test("gives nothing that an event came without", async () => {
    const client = nextTenant();
    const event = received({ client_id: client, did: mine, event_id: uuid(1) });
    const data = { ...attributed({}, { enrichment: { consent: 0xfb } }), event };
    await write(events, eventRows(recorded(topics.eventsAttributed, data)));
    await choose(client, 0xff, 10);
    expect((await reads(client)).rows.map(({ consent }) => consent)).toEqual([0xfb]);
  });
});

test("figures are counted again where the sink died before it marked, or the keeper before it cleared", async () => {
  const client = nextTenant();
  await visit(client);
  await settle();
  await choose(client, 0, 10, false);
  await settle();
  expect((await figures(client)).events).toBe(3);
  // Its offset was not committed, so the same change is read again and sets the mark.
  await choose(client, 0, 10);
  const owner = openPool(env.POSTGRES_ADMIN_URL!, { max: 1 });
  try {
    const failing = { query: () => Promise.reject(new Error("the store died")) } as unknown as Clickhouse;
    await expect(markWithdrawn(pool, failing, 1_000)).rejects.toThrow("the store died");
    expect((await owner.query("select 1 from consent_marks where client_id = $1", [client])).rowCount).toBe(1);
    await settle();
    expect((await owner.query("select 1 from consent_marks where client_id = $1", [client])).rowCount).toBe(0);
  } finally {
    await owner.end();
  }
  expect((await figures(client)).events).toBe(2);
});

test("the latest choice is the latest by time, then by place in the log, however choices come", async () => {
  const given = fc.array(fc.record({ mask: fc.integer({ min: 0, max: 255 }), at: fc.nat(3) }), {
    minLength: 1,
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(
      given,
      fc.array(fc.nat(5), { maxLength: 4 }),
      fc.infiniteStream(fc.nat(100)),
      async (made, again, order) => {
        const client = nextTenant();
        const rows = made.map(({ mask, at }, n) =>
          rowsOf(choice({ client_id: client, did: mine, event_id: uuid(n), ts: noon + at }, mask), noon + at, n),
        );
        // A resent choice has a later place in the log, and is the same change.
        const resent = again
          .filter((n) => n < made.length)
          .map((n) => {
            const { mask, at } = made[n]!;
            return rowsOf(
              choice({ client_id: client, did: mine, event_id: uuid(n), ts: noon + at }, mask),
              noon + 10,
              100 + n,
            );
          });
        const keyed = [...rows, ...rows, ...resent].map((row) => ({ row, place: order.next().value as number }));
        const shuffled = keyed.toSorted((a, b) => a.place - b.place).map(({ row }) => row);
        for (const row of shuffled) await write(consentChanges, row, false);
        const latest = made.reduce((best, one) => (one.at >= best.at ? one : best));
        expect([...(await latestMasks(clickhouse, client, [mine]))]).toEqual([[mine, latest.mask]]);
      },
    ),
    { numRuns: 15 },
  );
}, 120_000);
