// The worker of money is held at a tenth of a core for ten minutes, with a backlog of claims and
// more of them coming: each of its groups goes on, and the process is not started again. `npm run
// drills` prints the share of the processor and the progress of each minute.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, test } from "vitest";
import { processorSecondsOf } from "../../infra/embedded/child.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { pipeline } from "../../topology.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";
import { shopOf } from "../support/e2e-shop.ts";

const MINUTES = 10;
const BACKLOG = 100_000;
const A_REQUEST = 2_000;
/** A request of claims each ten seconds goes on meanwhile. */
const MORE_MS = 10_000;
/** A group that lags and whose offsets stand still for as long stands. */
const STANDS_MINUTES = 3;
/** Ten milliseconds of a hundred. More threads than one may run in them. */
const SHARE = 0.1;
const MOST_SHARE = 0.2;

const WORKER = "worker-money";
const hostedBy = (worker: string) =>
  groupsOf(pipeline, apps.find(({ name }) => name === worker)!.args!).filter(({ is }) => is !== "copy");

let product: Product;
beforeAll(async () => {
  product = await startProduct();
}, 240_000);
afterAll(() => product?.clear());

/**
 * Lets a process run for a share of each 100 ms. A thread of its own does it, because the loop of
 * the test is busy now and then.
 */
const starving = (pid: number): (() => Promise<void>) => {
  const thread = new Worker(
    `const { workerData: { pid, runMs, restMs } } = require("node:worker_threads");
     const never = new Int32Array(new SharedArrayBuffer(4));
     for (;;) {
       process.kill(pid, "SIGCONT");
       Atomics.wait(never, 0, 0, runMs);
       process.kill(pid, "SIGSTOP");
       Atomics.wait(never, 0, 0, restMs);
     }`,
    { eval: true, workerData: { pid, runMs: 100 * SHARE, restMs: 100 * (1 - SHARE) } },
  );
  // The process has ended, which the test sees.
  thread.on("error", () => undefined);
  return async () => {
    await thread.terminate();
    try {
      process.kill(pid, "SIGCONT");
    } catch {}
  };
};

const committedOf = async (name: string, topic: string): Promise<number> =>
  [...(await product.admin.committed(name, topic)).values()].reduce((sum, offset) => sum + offset, 0);
const lagOf = async (name: string, topic: string): Promise<number> =>
  (await product.admin.lag(name, [topic])).reduce((sum, { lag }) => sum + lag, 0);
/** How often the worker has said so, also in the log of before. */
const said = (event: string): number =>
  ["", ".1"]
    .map((suffix) => join(product.stack.home, "logs", `${WORKER}.log${suffix}`))
    .flatMap((file) => (existsSync(file) ? readFileSync(file, "utf8").split("\n") : []))
    .filter((line) => line.includes(event)).length;

test(
  "at a tenth of a core for ten minutes each group of money advances, in the same process",
  async () => {
    const shop = shopOf(product, "aurora-music");
    const tokens = await product.tokens(shop.id, 4);
    let orders = 0;
    const send = async (): Promise<void> => {
      const events = Array.from({ length: A_REQUEST }, () => {
        orders += 1;
        const event = shop.purchase(`starved-${orders}`);
        return { ...event, props: { ...event.props, product_id: "cd", revenue: "10.00", currency: "USD" } };
      });
      const { status } = await fetch(`${product.ingestUrl}/ingest/batch`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${tokens[(orders / A_REQUEST) % tokens.length]}`,
          "content-type": "application/json",
        },
        body: JSON.stringify({ events }),
      });
      expect(status).toBe(200);
    };
    const pid = product.stack.pid(WORKER)!;
    process.kill(pid, "SIGSTOP");
    while (orders < BACKLOG) await send();
    const [chain] = hostedBy("worker-chain");
    await until("the claims are in the log", 300_000, async () =>
      expect(await lagOf(chain!.name, chain!.reads.name)).toBe(0),
    );

    const stop = starving(pid);
    const more = setInterval(() => void send().catch(() => undefined), MORE_MS);
    const standing = new Map<string, number>();
    const before = new Map<string, number>();
    try {
      for (let minute = 0; minute <= MINUTES; minute++) {
        const seconds = processorSecondsOf(pid)!;
        const began = performance.now();
        const figures: string[] = [];
        for (const { name, reads } of hostedBy(WORKER)) {
          const [committed, lag] = [await committedOf(name, reads.name), await lagOf(name, reads.name)];
          const gained = committed - (before.get(name) ?? committed);
          before.set(name, committed);
          standing.set(name, minute === 0 || gained > 0 || lag === 0 ? 0 : (standing.get(name) ?? 0) + 1);
          figures.push(`${name} +${gained} (lag ${lag})`);
        }
        console.log(`minute ${minute}: ${figures.join(", ")}; batch.slow ${said("batch.slow")} times`);
        expect([...standing].filter(([, minutes]) => minutes >= STANDS_MINUTES)).toEqual([]);
        expect(product.stack.pid(WORKER)).toBe(pid);
        if (minute === MINUTES) break;
        await sleep(60_000 - (performance.now() - began));
        const share = (processorSecondsOf(pid)! - seconds) / ((performance.now() - began) / 1_000);
        console.log(`minute ${minute + 1}: the worker had ${(100 * share).toFixed(1)} % of a core`);
        expect(share).toBeLessThan(MOST_SHARE);
      }
    } finally {
      clearInterval(more);
      await stop();
    }
    await product.quiet(600_000);
    expect(product.stack.pid(WORKER)).toBe(pid);
  },
  (MINUTES + 15) * 60_000,
);
