// An event names the line that it made or is a copy of, so that decisions about a lead, an install
// or a custom sale are possible.
import { afterAll, expect, test } from "vitest";
import { strayRefunds } from "../../apps/keeper/schedules/stray-refunds.ts";
import { sentEventId } from "../../domain/ids.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { decisionTopic } from "../../modules/money/decisions/decision-messages.ts";
import { lineOfEvent } from "../../modules/money/orders/line-of-event.ts";
import { movesOfStrayRefunds } from "../../modules/money/orders/stray-refunds.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, recorded } from "../support/builders.ts";
import { refund, sale } from "../support/money-builders.ts";
import { bytesOf } from "../support/remembered.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!);
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([pool.end(), clickhouse.close()]));
const client_id = 700_000_000 + (Date.now() % 1_000_000) * 100;

const store = async (sent: string, event: Partial<EventReceived>, merged_into: string | null = null) => {
  const event_id = sentEventId(client_id, sent);
  const data = attributed({ client_id, event_id, sender_event_id: sent, ...event }, { merged_into });
  const rows = eventRows(recorded(topics.eventsAttributed, data));
  await clickhouseStore(clickhouse).insert(events, rows, event_id);
  return event_id;
};
const remember = (orderKey: string, value: Uint8Array = Buffer.of()) =>
  pool.query(
    `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
     values ('settle', $1, 1, 'e', 'claims', 0, 0, $2)`,
    [`${client_id}:${orderKey}`, value],
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
  const event_id = await store("sale-1-copy", { order_id: "o1", product_id: null }, first);
  await store("sale-1-pixel", { order_id: "o1", product_id: "sku1" }, first);
  await remember("o:o1");
  // Without a product it may be a copy of several lines, and only settle knows which.
  expect(await found("sale-1-copy")).toMatchObject({ copy: { event_id, product_id: null } });
  expect(await found("sale-1-pixel")).toMatchObject({ copy: null });
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

test("and is found there also where its order is remembered, as far as it is no refund that waits there", async () => {
  const stateOf = async (orderKey: string, claim: Recorded<Claim>) => {
    const outcome = settle(claim, emptyOrder, null);
    if (outcome.kind !== "emit") throw new Error(`settle emits, this one was a ${outcome.kind}`);
    await remember(orderKey, bytesOf(order, [`${client_id}:${orderKey}`], emptyOrder, outcome.state)[0]!.value);
  };
  const [alone, inOrder] = [
    await store("trial-8", { t: "custom", custom_name: "trial", order_id: "o8" }),
    await store("trial-9", { t: "custom", custom_name: "trial", order_id: "o8" }),
  ];
  const custom = { client_id, t: "custom", custom_name: "trial", order_id: "o8" };
  await stateOf("o:o8", sale({ ...custom, event_id: inOrder }));
  await stateOf(`e:${alone}`, sale({ ...custom, event_id: alone, order_key: `e:${alone}` }));
  await stateOf(`e:${inOrder}`, refund({ client_id, order_key: `e:${inOrder}`, line_event_id: inOrder }));
  expect(await found("trial-8")).toMatchObject({ order_key: `e:${alone}` });
  expect(await found("trial-9")).toMatchObject({ order_key: "o:o8" });
});

test("what settle knows no line of is not found: a page view, an event that was never sent", async () => {
  await store("view-1", { t: "page_view", order_id: null });
  expect(await found("view-1")).toBeUndefined();
  expect(await found("nothing")).toBeUndefined();
});

test("a refund that names a lead is moved from where it waits to where the lead is, once it is stored", async () => {
  const refunded_event_id = "lead-9";
  const event_id = sentEventId(client_id, refunded_event_id);
  const asked = refund({ client_id, order_key: `e:${event_id}`, props: JSON.stringify({ refunded_event_id }) });
  const claim = { ...asked, data: { ...asked.data, client_id, line_event_id: event_id } };
  const outcome = settle(claim, emptyOrder, null);
  if (outcome.kind !== "emit") throw new Error(`settle emits, this one was a ${outcome.kind}`);
  const key = `${client_id}:e:${event_id}`;
  await remember(`e:${event_id}`, bytesOf(order, [key], emptyOrder, outcome.state)[0]!.value);
  const moves = async (after = `${client_id}:`) => {
    for await (const move of movesOfStrayRefunds({ clickhouse, pool }, Date.now(), { after }))
      if (move.key === key) return move.claims.map(({ order_key, line_event_id }) => [order_key, line_event_id]);
    return undefined;
  };

  expect(await moves()).toEqual([]);
  await store(refunded_event_id, { t: "lead_submit", order_id: null, lead_key: "k9" });
  await remember("l:k9");
  expect(await moves()).toEqual([
    ["l:k9", event_id],
    [`e:${event_id}`, null],
  ]);
  expect(await moves(key)).toBeUndefined();
});

test("the keeper looks on where a turn ended, until it has seen all, and then once an hour", async () => {
  const names = ["lead-20", "lead-21", "lead-22"];
  for (const [n, refunded_event_id] of names.entries()) {
    const event_id = sentEventId(client_id, refunded_event_id);
    const asked = refund({ client_id, order_key: `e:${event_id}`, props: JSON.stringify({ refunded_event_id }) });
    const claim = { ...asked, data: { ...asked.data, client_id, line_event_id: event_id } };
    const outcome = settle(claim, emptyOrder, null);
    if (outcome.kind !== "emit") throw new Error(`settle emits, this one was a ${outcome.kind}`);
    await remember(`e:${event_id}`, bytesOf(order, [`e:${event_id}`], emptyOrder, outcome.state)[0]!.value);
    await store(refunded_event_id, { t: "lead_submit", order_id: null, lead_key: `k2${n}` });
    await remember(`l:k2${n}`);
  }
  const wire = inMemoryWire([decisionTopic]);
  const sent: Claim[] = [];
  let now = Date.now();
  const schedule = strayRefunds({
    ...{ pool, clickhouse, wire },
    produce: async (messages) => {
      for (const { value } of messages)
        sent.push(wire.decode(decisionTopic, value!, { topic: decisionTopic.name, partition: 0, offset: 0 }).data);
    },
    // At each reading of the clock the turn is over.
    clock: () => (now += 31_000),
  });
  const mine = () => sent.filter((claim) => claim.client_id === client_id && claim.order_key.startsWith("l:k2"));
  const begin = now;
  let turns = 0;
  for (; mine().length < names.length && now < begin + 3_600_000; turns += 1) await schedule.work(() => false);
  expect(
    mine()
      .map(({ order_key }) => order_key)
      .sort(),
  ).toEqual(["l:k20", "l:k21", "l:k22"]);
  expect(turns).toBeGreaterThanOrEqual(names.length);

  while (now < begin + 3_500_000) await schedule.work(() => false);
  expect(mine()).toHaveLength(names.length);
  now += 3_600_000;
  for (turns = 0; mine().length < 2 * names.length && turns < 100; turns += 1) await schedule.work(() => false);
  // They still wait because no stage settled the claims, and repeated claims have the same ids.
  expect(new Set(mine().map(({ moved }) => moved!.move_id)).size).toBe(names.length);
});
