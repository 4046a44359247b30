// Events of the analytics store are purged once they are older than their client keeps them, or
// than their visitor allows.
import { afterAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { purgeEvents } from "../../modules/privacy/purge-events.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events as eventsTable } from "../../sinks/analytics/table.ts";
import { consentRows } from "../../sinks/consent/rows.ts";
import { consentChanges } from "../../sinks/consent/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, choice, dayMs, noon, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { until } from "../support/waits.ts";

const { env } = sharedStack();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => clickhouse.close());

const ago = (days: number): number => noon - days * dayMs;
let tenants = 600_000_000 + (Date.now() % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
let ids = 0;
const inLog = (event: EventReceived) =>
  recorded(topics.eventsAttributed, attributed(event, { enrichment: { consent: event.consent } }), { at: event.ts });
/** Stores visits of the client, and then choices of their devices. */
const store = async (client_id: number, given: readonly Partial<EventReceived>[]): Promise<void> => {
  const stored = given.map((event) => {
    const event_id = `00000000-0000-8000-8000-${(++ids).toString(16).padStart(12, "0")}`;
    return inLog(choice({ client_id, event_id, custom_name: "visit", ...event }, event.consent ?? 0xff));
  });
  await clickhouseStore(clickhouse).insert(eventsTable, stored.flatMap(eventRows), `purge/${client_id}/${ids}`);
  await clickhouseStore(clickhouse).insert(consentChanges, stored.flatMap(consentRows), `purge/${client_id}/${ids}`);
};
const namesOf = async (client_id: number): Promise<readonly string[]> => {
  const rows = await readRows(clickhouse, scopeOf(client_id), {
    from: "events",
    columns: { name: text("ifNull(custom_name, t)") },
    orderBy: ["event_id"],
  });
  return rows.map(({ name }) => name);
};
/** Purges until nothing is due, and returns the number of rows. */
const purge = async (...clients: readonly (readonly [clientId: number, months: number])[]): Promise<number> => {
  const given = clients.map(([clientId, months]) => ({ clientId, months }));
  let rows = 0;
  await until("nothing is left to purge", 60_000, async () => {
    const purged = await purgeEvents(clickhouse, given, noon);
    if (purged !== "busy") rows += purged.rows;
    expect(purged).toEqual({ rows: 0, isDone: true });
  });
  return rows;
};

test("an event goes when its client keeps it no longer, and what money is explained by stays", async () => {
  const [short, long, other] = [nextTenant(), nextTenant(), nextTenant()];
  const order = { order_id: "o1", value_minor: 100n };
  const events = [
    { custom_name: "fresh", ts: ago(91) },
    { custom_name: "old", ts: ago(93) },
    { t: "click", custom_name: null, ts: ago(400) },
    ...["purchase", "ext_purchase", "refund", "lead_submit", "install"].map((t) => ({
      ...{ ...order, t, custom_name: null, ts: ago(400) },
    })),
  ];
  for (const client of [short, long, other]) await store(client, events);
  const money = ["purchase", "ext_purchase", "refund", "lead_submit", "install"];
  expect(await purge([short, 3], [long, 24])).toBe(2);
  expect(await namesOf(short)).toEqual(["fresh", ...money]);
  expect(await namesOf(long)).toEqual(["fresh", "old", "click", ...money]);
  expect(await namesOf(other)).toHaveLength(8);
  expect(await purge([short, 3], [long, 24])).toBe(0);
});

test("without extended retention an event goes after 90 days, by its mask and the latest choice", async () => {
  const client = nextTenant();
  const [kept, refused, again] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];
  await store(client, [
    { custom_name: "allowed", did: kept, ts: ago(92) },
    { custom_name: "own-mask", did: kept, ts: ago(92), consent: 0xbf },
    { custom_name: "own-mask-fresh", did: kept, ts: ago(89), consent: 0xbf },
    { t: "lead_submit", custom_name: null, did: kept, ts: ago(92), consent: 0xbf },
    { custom_name: "refused-later", did: refused, ts: ago(92) },
    { custom_name: "allowed-again", did: again, ts: ago(92) },
  ]);
  const chosen = (did: string, mask: number, days: number) => ({
    ...{ did, consent: mask, ts: ago(days), custom_name: "consent", props: JSON.stringify({ mask }) },
  });
  await store(client, [chosen(refused, 0xbf, 3), chosen(again, 0xbf, 3), chosen(again, 0xff, 2)]);
  expect(await purge([client, 24])).toBe(2);
  expect(await namesOf(client)).toEqual([
    ...["allowed", "own-mask-fresh", "lead_submit", "allowed-again", "consent", "consent", "consent"],
  ]);
});
