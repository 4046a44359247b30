// A real installation idles for ten minutes and is rewound, and its own metrics, as Prometheus
// would scrape them, raise no alarm. `npm run drills`.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AlertWorld } from "../support/alert-world.ts";
import { type Product, startProduct } from "../support/e2e-product.ts";
import { shopOf } from "../support/e2e-shop.ts";

const TICK_MS = 10_000;
const IDLE_MINUTES = 10;
/** Longer than the rule about late events looks back, and waits. */
const AFTER_MINUTES = 8;
const MINUTES_40 = 40 * 60_000;

let product: Product;
beforeAll(async () => {
  product = await startProduct(undefined, ["identity", "mail"]);
}, 240_000);
afterAll(() => product?.clear());

/** What every app says at its side port. */
const observed = (home: string): AlertWorld => {
  const world = new AlertWorld();
  const { apps } = JSON.parse(readFileSync(join(home, "run.json"), "utf8")) as {
    readonly apps: Readonly<Record<string, { readonly ops_url: string }>>;
  };
  for (const [name, { ops_url }] of Object.entries(apps))
    world.scraped(name, async () => (await fetch(`${ops_url}/metrics`)).text());
  return world;
};

const watch = async (world: AlertWorld, minutes: number): Promise<void> => {
  for (let tick = 0; tick < minutes * 6; tick++) {
    await sleep(TICK_MS);
    await world.pass(TICK_MS / 1_000);
    world.firing();
  }
};

test(
  "no alarm fires while it idles, nor while and after its groups read everything again",
  async () => {
    const shop = shopOf(product, "casa-verde");
    // Fewer than those after which a client's silence is an alarm of its own.
    await shop.send(Array.from({ length: 90 }, (_, n) => shop.purchase(`rest-${n}`)));
    await product.quiet(120_000);
    const world = observed(product.stack.home);
    await watch(world, IDLE_MINUTES);
    for (const group of ["analytics", "enrich"]) {
      const rewind = product.tributary("rewind", group, "--to", "earliest", "--reason", "a drill", "--yes");
      const watching = watch(world, 1);
      expect((await rewind.done).code, (await rewind.done).stderr).toBe(0);
      await watching;
    }
    await watch(world, AFTER_MINUTES);
    expect(world.judge()).toBe("");
  },
  MINUTES_40,
);
