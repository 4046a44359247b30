// An event names the line that it made or is a copy of, so that decisions about a lead, an install
// or a custom sale are possible.
import { afterAll, describe, expect, test } from "vitest";
import { strayRefunds } from "../../apps/keeper/schedules/stray-refunds.ts";
import { pageEventId, sentEventId } from "../../domain/ids.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { decisionTopic } from "../../modules/money/decisions/decision-messages.ts";
import { findSales, type SaleReader } from "../../modules/money/decisions/find-sales.ts";
import { storedAs } from "../../modules/money/orders/event-names.ts";
import { linesOfClient } from "../../modules/money/orders/line-of-event.ts";
import { movesOfStrayRefunds } from "../../modules/money/orders/stray-refunds.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, recorded } from "../support/builders.ts";
import { refund, sale } from "../support/money-builders.ts";
import { bytesOf } from "../support/remembered.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!);
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([pool.end(), clickhouse.close()]));
const client_id = 700_000_000 + (Date.now() % 1_000_000) * 100;

const store = async (sent: string, event: Partial<EventReceived>, merged_into: string | null = null, credit = {}) => {
  const { event_id = sentEventId(client_id, sent) } = event;
  const data = attributed({ client_id, event_id, sender_event_id: sent, ...event }, { merged_into, credit });
  const rows = eventRows(recorded(topics.eventsAttributed, data));
  await clickhouseStore(clickhouse).insert(events, rows, event_id);
  return event_id;
};
/** What settle remembers once it has read this claim. */
const rememberClaim = async (orderKey: string, claim: Recorded<Claim>) => {
  const outcome = settle({ ...claim, data: { ...claim.data, client_id, order_key: orderKey } }, emptyOrder, null);
  if (outcome.kind !== "emit") throw new Error(`settle emits, this one was a ${outcome.kind}`);
  await rememberState(orderKey, outcome.state);
};
const rememberState = async (orderKey: string, state: OrderState) => {
  const { value } = bytesOf(order, [`${client_id}:${orderKey}`], emptyOrder, state)[0]!;
  await pool.query(
    `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
     values ('settle', $1, 1, 'e', 'claims', 0, 0, $2)`,
    [`${client_id}:${orderKey}`, value],
  );
};
const remember = (orderKey: string, event_id: string) => rememberClaim(orderKey, sale({ client_id, event_id }));
const found = async (id: string) => (await linesOfClient({ clickhouse, pool }, client_id, [id]))[0];

test("a lead is found by its sender's id and by the log's", async () => {
  const event_id = await store("lead-1", { t: "lead_submit", order_id: null, lead_key: "k1" });
  await remember("l:k1", event_id);
  const line = { order_key: "l:k1", event: { event_id, t: "lead_submit" } };
  expect(await found("lead-1")).toMatchObject(line);
  expect(await found(event_id)).toMatchObject(line);
});

test("a copy names the line of the first", async () => {
  const first = await store("sale-1", { order_id: "o1", product_id: "sku1" });
  const event_id = await store("sale-1-copy", { order_id: "o1", product_id: null }, first);
  await store("sale-1-pixel", { order_id: "o1", product_id: "sku1" }, first);
  await remember("o:o1", first);
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
  await remember(`e:${event_id}`, event_id);
  expect(await found("trial-1")).toMatchObject({ order_key: `e:${event_id}`, event: { custom_name: "trial" } });
});

test("and is found there also where its order is remembered, as far as it is no refund that waits there", async () => {
  const [alone, inOrder] = [
    await store("trial-8", { t: "custom", custom_name: "trial", order_id: "o8" }),
    await store("trial-9", { t: "custom", custom_name: "trial", order_id: "o8" }),
  ];
  const custom = { client_id, t: "custom", custom_name: "trial", order_id: "o8" };
  await rememberClaim("o:o8", sale({ ...custom, event_id: inOrder }));
  await rememberClaim(`e:${alone}`, sale({ ...custom, event_id: alone, order_key: `e:${alone}` }));
  await rememberClaim(`e:${inOrder}`, refund({ client_id, order_key: `e:${inOrder}`, line_event_id: inOrder }));
  expect(await found("trial-8")).toMatchObject({ order_key: `e:${alone}` });
  expect(await found("trial-9")).toMatchObject({ order_key: "o:o8" });
});

test("a held refund is found for what ends it, with the lines that it names, and for nothing else", async () => {
  const said = { client_id, t: "refund", order_id: "o39", product_id: null, value_minor: 30_00n };
  const ids = [
    await store("refund-1", { ...said, source: "shop" }),
    await store("refund-2", { ...said, source: "stripe" }),
  ];
  const refunds = ids.map((event_id, n) => refund({ ...said, event_id, source: n === 0 ? "shop" : "stripe" }));
  const state = [sale({ client_id, order_id: "o39" }), ...refunds].reduce((before, claim) => {
    const outcome = settle(claim, before, null);
    return outcome.kind === "emit" ? outcome.state : before;
  }, emptyOrder);
  await rememberState("o:o39", state);
  const sold = (event_id: string, withHeldRefunds: boolean) =>
    transaction(pool, [client_id], async (tx) => {
      const reader = { tx, scope: { clients: [client_id] } } as unknown as SaleReader;
      const [match] = await findSales(clickhouse, reader, { named: [{ event_id }], withHeldRefunds });
      return match;
    });
  expect(await sold("refund-2", true)).toMatchObject({ isHeldRefund: true, lines: [{ product_key: "sku1" }] });
  expect(await sold("refund-1", true)).toBeUndefined();
  expect(await sold("refund-2", false)).toBeUndefined();
});

test("what settle knows no line of is not found: a page view, an event that was never sent", async () => {
  await store("view-1", { t: "page_view", order_id: null });
  expect(await found("view-1")).toBeUndefined();
  expect(await found("nothing")).toBeUndefined();
});

describe("of the events of pages under one id of a sender", () => {
  const ofPage = { client_side: true, source: "pixel", did: "evil" };
  const pageId = (sent: string, content: string): string => pageEventId(client_id, sent, content);

  test("the conversion is found, not the page view that a stranger sent to hide it", async () => {
    const view = pageEventId(client_id, "hidden");
    const lead = pageId("hidden", "lead");
    const real = pageId("hidden", "purchase");
    await store("hidden", { ...ofPage, event_id: view, t: "page_view", order_id: null });
    await store("hidden", { ...ofPage, event_id: lead, t: "lead_submit", order_id: null, value_minor: 900_00n });
    await store("hidden", { ...ofPage, event_id: real, order_id: "hidden-1" }, null, clickCredit());
    const shared = sentEventId(client_id, "hidden");
    // A refund of the id waits where the lead is.
    await remember(`e:${shared}`, lead);
    await remember("o:hidden-1", real);
    expect(await found("hidden")).toMatchObject({ order_key: "o:hidden-1", event: { event_id: real } });
    expect(await found(lead)).toMatchObject({ order_key: `e:${shared}`, event: { event_id: lead } });
    expect(await storedAs(clickhouse, "hidden", [client_id])).toMatchObject([{ event_id: real }]);
    expect(await storedAs(clickhouse, view, [client_id])).toMatchObject([{ event_id: view }]);
  });

  test("what the refund's own key remembers is no line of a page view", async () => {
    const shared = sentEventId(client_id, "view-only");
    await store("view-only", {
      ...ofPage,
      event_id: pageEventId(client_id, "view-only"),
      t: "page_view",
      order_id: null,
    });
    await rememberClaim(`e:${shared}`, refund({ client_id, line_event_id: shared }));
    expect(await found("view-only")).toBeUndefined();
  });

  test("what earned comes before what is worth more, and the event of a server before all", async () => {
    const [earned, worth] = [pageId("many", "earned"), pageId("many", "worth more")];
    await store("many", { ...ofPage, event_id: worth, order_id: "many-2", value_minor: 900_00n });
    await store("many", { ...ofPage, event_id: earned, order_id: "many-1", value_minor: 100_00n }, null, clickCredit());
    await remember("o:many-1", earned);
    await remember("o:many-2", worth);
    expect(await found("many")).toMatchObject({ order_key: "o:many-1" });
    expect(await storedAs(clickhouse, "many", [client_id])).toMatchObject([{ event_id: earned }]);
    const server = await store("many", { order_id: "many-3" });
    await remember("o:many-3", server);
    expect(await found("many")).toMatchObject({ order_key: "o:many-3" });
    expect(await storedAs(clickhouse, "many", [client_id])).toMatchObject([{ event_id: server }]);
  });

  test("a server's event without a line, such as a custom event that earns nothing, hides no sale", async () => {
    await store("beside", { t: "custom", custom_name: "order_paid", order_id: null });
    const real = pageId("beside", "purchase");
    await store("beside", { ...ofPage, event_id: real, order_id: "beside-1" });
    await remember("o:beside-1", real);
    expect(await found("beside")).toMatchObject({ order_key: "o:beside-1", event: { event_id: real } });
  });
});

test("a refund that names a lead is moved from where it waits to where the lead is, once it is stored", async () => {
  const refunded_event_id = "lead-9";
  const event_id = sentEventId(client_id, refunded_event_id);
  const asked = refund({ client_id, order_key: `e:${event_id}`, props: JSON.stringify({ refunded_event_id }) });
  const claim = { ...asked, data: { ...asked.data, client_id, line_event_id: event_id } };
  const key = `${client_id}:e:${event_id}`;
  await rememberClaim(`e:${event_id}`, claim);
  const moves = async (after = `${client_id}:`) => {
    for await (const move of movesOfStrayRefunds({ clickhouse, pool }, Date.now(), { after }))
      if (move.key === key) return move.claims.map(({ order_key, line_event_id }) => [order_key, line_event_id]);
    return undefined;
  };

  expect(await moves()).toEqual([]);
  await store(refunded_event_id, { t: "lead_submit", order_id: null, lead_key: "k9" });
  await remember("l:k9", event_id);
  expect(await moves()).toEqual([
    ["l:k9", event_id],
    [`e:${event_id}`, null],
  ]);
  expect(await moves(key)).toBeUndefined();
});

test("a server's refund under the id of the page's sale that it names is moved to that sale", async () => {
  const sent = "lead-11";
  const [asked, shared] = [
    refund({ client_id, props: JSON.stringify({ refunded_event_id: sent }) }),
    sentEventId(client_id, sent),
  ];
  const { attributed: row } = asked.data;
  const own = { ...row, event: { ...row.event, event_id: shared, sender_event_id: sent, order_id: null } };
  await rememberClaim(`e:${shared}`, {
    ...asked,
    id: shared,
    data: { ...asked.data, attributed: own, line_event_id: shared },
  });
  await store(sent, { t: "refund", order_id: null });
  const event_id = pageEventId(client_id, sent, "lead_submit");
  await store(sent, { event_id, client_side: true, t: "lead_submit", order_id: null, lead_key: "k11" });
  await remember("l:k11", event_id);
  const moved: (string | null)[][] = [];
  for await (const { key, claims } of movesOfStrayRefunds({ clickhouse, pool }, Date.now(), { after: `${client_id}:` }))
    if (key === `${client_id}:e:${shared}`)
      moved.push(...claims.map(({ order_key, line_event_id }) => [order_key, line_event_id]));
  expect(moved).toEqual([
    ["l:k11", event_id],
    [`e:${shared}`, null],
  ]);
});

test("a refund is moved to the order that was stored with an invisible character", async () => {
  const [before, now] = ["Z\u200b-1", "Z-1"];
  const moves = async () => {
    for await (const { key, claims } of movesOfStrayRefunds({ clickhouse, pool }, Date.now(), {
      after: `${client_id}:`,
    }))
      if (key === `${client_id}:o:${now}`)
        return claims.map(({ order_key, line_event_id }) => [order_key, line_event_id]);
    return undefined;
  };
  await rememberClaim(`o:${now}`, refund({ client_id, order_id: now, props: JSON.stringify({ order_id: before }) }));
  expect(await moves()).toEqual([]);
  await rememberClaim(`o:${before}`, sale({ client_id, order_id: before }));
  expect(await moves()).toEqual([
    [`o:${before}`, null],
    [`o:${now}`, null],
  ]);
});

test("the keeper looks on where a turn ended, until it has seen all, and then once an hour", async () => {
  const names = ["lead-20", "lead-21", "lead-22"];
  for (const [n, refunded_event_id] of names.entries()) {
    const event_id = sentEventId(client_id, refunded_event_id);
    const asked = refund({ client_id, order_key: `e:${event_id}`, props: JSON.stringify({ refunded_event_id }) });
    const claim = { ...asked, data: { ...asked.data, client_id, line_event_id: event_id } };
    await rememberClaim(`e:${event_id}`, claim);
    await store(refunded_event_id, { t: "lead_submit", order_id: null, lead_key: `k2${n}` });
    await remember(`l:k2${n}`, event_id);
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
