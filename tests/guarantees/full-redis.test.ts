// A full Redis: hints stop and give way, stages go on, and money comes out as it would have.
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

let product: Product;
let redis: Redis;
beforeAll(async () => {
  product = await startProduct();
  redis = new Redis(product.stack.env.REDIS_URL!);
});
afterAll(async () => {
  redis.disconnect();
  await product.clear();
});

const SALES = 40;
/** Sales of CDs, which their client's rule credits with 10 %, each of an address of its own. */
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
/** Amounts of a run's orders by their number, as the ledger has them. */
const booked = (run: string) =>
  product.rows(`
    select split_part(order_id, '-', 2)::int as n, amount_minor::text, c.currency, c.status
    from conversions join commissions c using (client_id, conversion_id)
    where order_id like '${run}-%' order by 1`);
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
/** Bytes, as Redis itself counts them. */
const bytesOf = async (name: "used_memory" | "maxmemory"): Promise<number> =>
  Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await redis.info("memory"))![1]);
/** Devices that enrich knows a person of. */
const rememberedDevices = async (): Promise<number> => (await redis.keys("memory:enrich:*")).length;

test("hints are left out and counted, stages go on, and sales earn what they earned before", async () => {
  await send("roomy", 1);
  const before = await bookedAll("roomy");
  await product.quiet(60_000);
  expect((await shed("answers")) + (await shed("members"))).toBe(0);
  expect(await rememberedDevices()).toBe(SALES);
  const pids = ["worker-chain", "worker-money"].map((name) => product.stack.pid(name));

  // Hints of another day fill it to the last byte: what they would not leave to fast memory.
  await redis.config("SET", "maxmemory", (await bytesOf("used_memory")) + 16 * 1024 * 1024);
  const filler = "x".repeat(1_000);
  let filled = 0;
  const fill = async (): Promise<unknown> => {
    for (;;) {
      const commands = redis.pipeline();
      for (let n = 0; n < 500; n += 1) commands.sadd(`tributary:velocity:7:filler:${filled++}`, filler);
      const [error] = ((await commands.exec()) ?? []).flatMap(([failed]) => failed ?? []);
      if (error !== undefined) return error;
    }
  };
  expect(String(await fill())).toContain("OOM command not allowed");
  await send("full", 2);
  expect(await bookedAll("full")).toEqual(before);
  await product.quiet(60_000);
  expect(["worker-chain", "worker-money"].map((name) => product.stack.pid(name))).toEqual(pids);
  expect((await shed("answers")) + (await shed("members"))).toBeGreaterThan(0);

  await until("room was made", 30_000, async () => {
    const used = (await bytesOf("used_memory")) / (await bytesOf("maxmemory"));
    if (used > 0.8) throw new Error(`${(used * 100).toFixed(0)} % of it is used`);
  });
  expect(await shed("keys")).toBeGreaterThan(0);
  // Nothing of fast memory went.
  expect(await rememberedDevices()).toBe(2 * SALES);
}, 180_000);
