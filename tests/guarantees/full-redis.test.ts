// When Redis is full, hints are no longer written and are dropped, stages continue, and the money
// is the same.
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";

let product: Product;
let redis: Redis;
let room: number;
const FILLER = "tributary:velocity:7:filler";
beforeAll(async () => {
  product = await joinProduct("full-redis");
  redis = new Redis(product.stack.env.REDIS_URL!);
  room = await bytesOf("maxmemory");
});
afterAll(async () => {
  // Other files find as much room as this one has found.
  await redis.config("SET", "maxmemory", room);
  await redis.unlink(...(await redis.keys(`${FILLER}:*`)), "none");
  redis.disconnect();
  await product.clear();
});

const SALES = 40;
/** Sales of CDs, which a rule of their client credits with 10 %, each from another address. */
const send = async (run: string, net: number): Promise<void> => {
  const { id, token } = product.client("aurora-music");
  const events = Array.from({ length: SALES }, (_, n) => ({
    ...{ event_id: `${run}-${n}`, t: "purchase", ts: Date.now() - 60_000, cid: id, did: `${run}-device-${n}` },
    ip: `203.0.${net}.${n}`,
    props: {
      order_id: `${run}-${n}`,
      product_id: "cd",
      quantity: 1,
      revenue: `${n + 1}.25`,
      currency: "USD",
      user_id: `${run}-${n}`,
    },
  }));
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(`"accepted":${SALES}`)]);
};
/** Amounts of the orders of a run by order number, from the ledger. */
const booked = (run: string) =>
  product.rows(`
    select split_part(order_id, '-', 2)::int as n, amount_minor::text, c.currency, c.status
    from conversions join commissions c using (client_id, conversion_id)
    where client_id = ${product.client("aurora-music").id} and order_id like '${run}-%' order by 1`);
const bookedAll = (run: string) =>
  until(`every sale of ${run} is booked`, 60_000, async () => {
    const found = await booked(run);
    if (found.length < SALES) throw new Error(`${found.length} are`);
    return found;
  });
const shed = async (what: string): Promise<number> => {
  let sum = 0;
  for (const name of ["worker-chain", "worker-money"]) {
    const text = await (await fetch(`${product.stack.run.apps[name]!.ops_url}/metrics`)).text();
    for (const [, labels, count] of text.matchAll(/^tributary_hints_shed_total\{(.*)\} (\d+)$/gm))
      if (labels!.includes(`what="${what}"`)) sum += Number(count);
  }
  return sum;
};
/** Bytes as Redis counts them. */
const bytesOf = async (name: "used_memory" | "maxmemory"): Promise<number> =>
  Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await redis.info("memory"))![1]);
/** The used share of the memory, from 0 to 1. */
const used = async (): Promise<number> => (await bytesOf("used_memory")) / (await bytesOf("maxmemory"));
/** Devices whose person enrich remembers. */
const rememberedDevices = async (): Promise<number> => (await redis.keys("memory:enrich:*")).length;

test("hints are left out and counted, stages go on, and sales earn what they earned before", async () => {
  const former = await rememberedDevices();
  await send("roomy", 1);
  const before = await bookedAll("roomy");
  await product.quiet(60_000);
  expect((await shed("answers")) + (await shed("members"))).toBe(0);
  expect((await rememberedDevices()) - former).toBe(SALES);
  const pids = ["worker-chain", "worker-money"].map((name) => product.stack.pid(name));

  // Hints of another day fill Redis up to the point where hints stop, and below the point of
  // eviction.
  await redis.config("SET", "maxmemory", (await bytesOf("used_memory")) + 16 * 1024 * 1024);
  const filler = "x".repeat(1_000);
  let filled = 0;
  const fillTo = async (share: number): Promise<unknown> => {
    while ((await used()) < share) {
      const commands = redis.pipeline();
      for (let n = 0; n < 500; n += 1) commands.sadd(`${FILLER}:${filled++}`, filler);
      const [error] = ((await commands.exec()) ?? []).flatMap(([failed]) => failed ?? []);
      if (error !== undefined) return error;
    }
    return null;
  };
  expect(await fillTo(0.85)).toBe(null);
  let runs = 0;
  await until("workers have seen that it is full, and leave hints out", 60_000, async () => {
    runs += 1;
    await send(`full${runs}`, 1 + runs);
    expect(await bookedAll(`full${runs}`)).toEqual(before);
    expect((await shed("answers")) + (await shed("members"))).toBeGreaterThan(0);
  });
  await product.quiet(60_000);
  expect(await shed("keys")).toBe(0);

  expect(String(await fillTo(Number.POSITIVE_INFINITY))).toContain("OOM command not allowed");
  await until("room was made", 30_000, async () => {
    const share = await used();
    if (share > 0.8) throw new Error(`${(share * 100).toFixed(0)} % of it is used`);
  });
  expect(await shed("keys")).toBeGreaterThan(0);
  expect(["worker-chain", "worker-money"].map((name) => product.stack.pid(name))).toEqual(pids);
  // No fast memory was evicted.
  expect((await rememberedDevices()) - former).toBe((1 + runs) * SALES);
}, 180_000);
