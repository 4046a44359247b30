// For every hosting of stages and sinks, receipts, /health, the lag and the alert about late sales
// use the groups that host them now.
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { App } from "../../infra/embedded/app.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { hostings } from "../../modules/log/groups/group-holds.ts";
import { hostsNow } from "../../modules/log/groups/hosts.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { answerOf, openProbes } from "../../modules/running/repair/probes.ts";
import { syncLagOf } from "../../modules/running/repair/sync-lag.ts";
import { pipeline } from "../../topology.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

let product: Product;
let pool: pg.Pool;
let client: { readonly id: number; readonly token: string };
beforeAll(async () => {
  product = await startProduct(apps.filter(({ name }) => name === "ingest"));
  pool = openPool(product.stack.env.POSTGRES_URL!, { max: 2 });
  client = product.client("casa-verde");
}, 180_000);
afterAll(async () => {
  await pool?.end();
  await product?.clear();
});

const worker = (name: string, ...args: readonly string[]): App => ({ name, module: "apps/worker/main.js", args });
const headers = () => ({ authorization: `Bearer ${client.token}`, "content-type": "application/json" });

let last = 0;
/** Page views and one sale, of new devices. */
const newEvents = (): readonly object[] =>
  ["page_view", "page_view", "purchase"].map((t) => {
    last += 1;
    const props =
      t === "purchase"
        ? { order_id: `hosted-${last}`, revenue: "100.00", currency: "MXN", product_id: "lamp", quantity: 1 }
        : { url: "https://www.casa-verde.example/" };
    return { t, ts: Date.now() - 60_000, cid: client.id, did: `hosted-${last}`, event_id: `hosted-${last}`, props };
  });
const send = async (events: readonly object[]): Promise<string> => {
  const body = JSON.stringify({ events });
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, { method: "POST", headers: headers(), body });
  const { accepted, batch_id } = (await answer.json()) as { accepted: number; batch_id: string };
  expect(accepted).toBe(events.length);
  return batch_id;
};
const receiptBecomes = (batch: string, wanted: Readonly<Record<string, number>>): Promise<void> =>
  until(`the receipt says ${JSON.stringify(wanted)}`, 60_000, async () => {
    const answer = await fetch(`${product.ingestUrl}/ingest/receipts/${batch}`, { headers: headers() });
    expect((await answer.json()) as object).toMatchObject({ events: wanted });
  });
const bufferBecomes = (events: number): Promise<void> =>
  until(`/health has ${events} events on their way`, 60_000, async () => {
    const { buffer_events: found } = (await (await fetch(`${product.ingestUrl}/health`)).json()) as {
      buffer_events: number | null;
    };
    expect(found).toBe(events);
  });

/** The output of `tributary lag` by group, without groups that are up to date. */
const lags = async (): Promise<Readonly<Record<string, number>>> => {
  const { stdout } = await product.tributary("lag", "--json").done;
  const behind: Record<string, number> = {};
  for (const { group, lag } of (JSON.parse(stdout) as { lag: { group: string; lag: number }[] }).lag)
    if (lag > 0) behind[group] = (behind[group] ?? 0) + lag;
  return behind;
};

const LATER_MS = 2 * 3_600_000;
/** The probe's answer about Postgres two hours from now, if nothing moves until then. */
const saleAlert = async (): Promise<string | null> => {
  const nothing = null as never;
  const { describeGroups } = product.admin;
  const hosts = await hostsNow({ topology: pipeline, recorded: () => hostings(pool), describeGroups });
  const seconds = await syncLagOf(product.admin, hosts, () => Date.now() + LATER_MS);
  const { relational_store: look } = openProbes({
    ...{
      instance: "test",
      topicPrefix: "",
      clickhouse: nothing,
      redis: nothing,
      objects: nothing,
      pool,
      eventLog: nothing,
      readIntoClickhouse: nothing,
      eventProcessing: nothing,
    },
    syncLag: async () => seconds,
  });
  return answerOf(look, 20_000);
};

/** Sends events twice; then no group is behind, and no alert is raised. */
const goesThrough = async (): Promise<void> => {
  const events = newEvents();
  await receiptBecomes(await send(events), { stored: 3, duplicate: 0, in_flight: 0 });
  await receiptBecomes(await send(events), { stored: 0, duplicate: 3, in_flight: 0 });
  await bufferBecomes(0);
  await until("nothing is behind", 60_000, async () => expect(await lags()).toEqual({}));
  expect(await saleAlert()).toBeNull();
};

const money = ["settle", "commission", "conversions", "ledger"];

test("the analytics sink behind another first sink, and sales behind identity", async () => {
  await product.stack.start(worker("chain", "enrich,score,attribute", ...money));
  await product.stack.start(worker("fused", "velocity,analytics", "identity,product-sales"));
  await goesThrough();

  await product.stack.stop("fused");
  const batch = await send(newEvents());
  await bufferBecomes(3);
  await receiptBecomes(batch, { stored: 0, in_flight: 3 });
  expect(await lags()).toEqual({ "tributary.velocity": 3, "tributary.identity": 3 });
  expect(await saleAlert()).toMatch(/^sales reach Postgres 7\d\d\d s late/);
}, 240_000);

test("sales alone, and what they wait for is their own group's", async () => {
  await product.stack.start(worker("others", "analytics,identity,velocity"));
  await product.stack.start(worker("sales", "product-sales"));
  await goesThrough();

  await product.stack.stop("sales");
  const batch = await send(newEvents());
  await receiptBecomes(batch, { stored: 3, in_flight: 0 });
  await bufferBecomes(0);
  expect(await lags()).toEqual({ "tributary.product-sales": 3 });
  expect(await saleAlert()).toMatch(/^sales reach Postgres 7\d\d\d s late/);
}, 240_000);

test("every stage and sink alone", async () => {
  await product.stack.stop("chain");
  await product.stack.stop("others");
  await product.stack.start(worker("stages", "enrich", "attribute", ...money));
  await product.stack.start(worker("score", "score"));
  await product.stack.start(worker("sinks", "analytics", "product-sales", "identity", "velocity"));
  await goesThrough();

  await product.stack.stop("score");
  const batch = await send(newEvents());
  await bufferBecomes(3);
  await receiptBecomes(batch, { stored: 0, in_flight: 3 });
  expect(await lags()).toEqual({ "tributary.score": 3 });
  // None of these has reached the sink of sales yet.
  expect(await saleAlert()).toBeNull();

  await product.stack.start(worker("score", "score"));
  await receiptBecomes(batch, { stored: 3, in_flight: 0 });
}, 240_000);
