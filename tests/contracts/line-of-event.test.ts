// An event names the line that it made or is a copy of, so that a lead, an install or a custom sale
// can be decided about.
import { afterAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { lineOfEvent } from "../../modules/decisions/line-of-event.ts";
import { sentEventId } from "../../processors/admit/event-id.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!);
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([pool.end(), clickhouse.close()]));
const client_id = 700_000_000 + (Date.now() % 1_000_000) * 100;

const store = async (sent: string, event: Partial<EventReceived>, merged_into: string | null = null) => {
  const event_id = sentEventId(client_id, sent);
  const data = attributed({ client_id, event_id, sender_event_id: sent, ...event }, { merged_into });
  const rows = eventRows(recorded(topics.eventsAttributed, data)).map(({ values }) => values);
  await clickhouseStore(clickhouse).insert(events, rows, event_id);
  return event_id;
};
const remember = (orderKey: string) =>
  pool.query(
    `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
     values ('settle', $1, 1, 'e', 'claims', 0, 0, '')`,
    [`${client_id}:${orderKey}`],
  );
const found = (id: string) => lineOfEvent({ clickhouse, pool }, client_id, id);

test("a lead is found by its sender's id and by the log's", async () => {
  const event_id = await store("lead-1", { t: "lead_submit", order_id: null, lead_key: "k1" });
  await remember("l:k1");
  const line = { order_key: "l:k1", event: { event_id, t: "lead_submit" } };
  expect(await found("lead-1")).toMatchObject(line);
  expect(await found(event_id)).toMatchObject(line);
});

test("a copy names the line of the first", async () => {
  const first = await store("sale-1", { order_id: "o1", product_id: "sku1" });
  await store("sale-1-copy", { order_id: "o1", product_id: null }, first);
  await remember("o:o1");
  expect(await found("sale-1-copy")).toMatchObject({
    order_key: "o:o1",
    event: { event_id: first, product_id: "sku1" },
  });
});

test("a custom sale that was settled by itself is found where it was settled", async () => {
  const event_id = await store("trial-1", { t: "custom", custom_name: "trial", order_id: "o7" });
  await remember(`e:${event_id}`);
  expect(await found("trial-1")).toMatchObject({ order_key: `e:${event_id}`, event: { custom_name: "trial" } });
});

test("what settle knows no line of is not found: a page view, an event that was never sent", async () => {
  await store("view-1", { t: "page_view", order_id: null });
  expect(await found("view-1")).toBeUndefined();
  expect(await found("nothing")).toBeUndefined();
});
