// A worker that is killed -9 is replaced: its stages have caught up within 30 s, its sinks within
// 60 s, while events keep coming.
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, newSeed, openJournal, startLoad } from "../support/e2e-load.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

let product: Product;
beforeAll(async () => {
  product = await startProduct();
});
afterAll(() => product?.clear());

/** docs/design/laws.md, "Targets": from the kill to lag 0, by kind of group. */
const STAGE_MS = 30_000;
const SINK_MS = 60_000;
const reading: Readonly<Record<string, readonly (readonly [group: string, topic: string, withinMs: number])[]>> = {
  "worker-chain": [["tributary.enrich", "events.raw", STAGE_MS]],
  "worker-money": [
    ["tributary.settle", "claims", STAGE_MS],
    ["tributary.commission", "conversions", STAGE_MS],
    ["tributary.analytics", "events.attributed", SINK_MS],
    ["tributary.conversions", "conversions", SINK_MS],
    ["tributary.ledger", "ledger.entries", SINK_MS],
  ],
};

test("every group of a killed worker has caught up in time, and nothing is lost or counted twice", async () => {
  const random = randomFrom(newSeed("replacement"));
  const { id } = product.client("aurora-music");
  const journal = openJournal(join(product.stack.home, "replacement.journal"));
  const next = eventsOf(random, "replacement", id);
  const load = startLoad({
    url: product.ingestUrl,
    tokens: await product.tokens(id, 6),
    next,
    random,
    journal,
    batch: 20,
    pauseMs: 500,
  });
  await until("the load has reached the ledger", 60_000, async () => {
    const marks = await product.admin.watermarks("ledger.entries");
    if (!marks.some(({ high }) => high > 0)) throw new Error("not yet");
  });

  const times: string[] = [];
  // Both at once: the later groups wait for the earlier ones too, and meet the bound all the same.
  const names = Object.keys(reading);
  const killedAt = performance.now();
  const atKill = new Map<string, number>();
  for (const topic of new Set(Object.values(reading).flatMap((groups) => groups.map(([, read]) => read))))
    atKill.set(topic, await lengthOf(topic));
  const replaced = names.map((name) => product.replaced(name, 90_000));
  await Promise.all(
    Object.values(reading)
      .flat()
      .map(async ([group, topic, withinMs]) => {
        // Lag 0 while events keep coming, for readers that gather a second's worth: all is read
        // that lay there when the first event after the kill had come.
        const marks = await until(`something comes for ${group}`, withinMs, async () => {
          if ((await lengthOf(topic)) <= atKill.get(topic)!) throw new Error("nothing yet");
          return product.admin.watermarks(topic);
        });
        await until(`${group} has caught up`, withinMs, async () => {
          const committed = await product.admin.committed(group, topic);
          const left = marks.reduce(
            (sum, { partition, high }) => sum + Math.max(0, high - (committed.get(partition) ?? 0)),
            0,
          );
          if (left > 0) throw new Error(`it lags by ${left}`);
        });
        const ms = performance.now() - killedAt;
        times.push(`${group} ${(ms / 1_000).toFixed(1)} s`);
        expect(ms).toBeLessThan(withinMs);
      }),
  );
  for (const { was, is } of await Promise.all(replaced)) expect(is).not.toBe(was);
  await load.stop();
  await product.quiet(60_000);
  const held = await expectLaws(product, "replacement", journal, load.sent);
  console.log(`caught up after: ${times.join(", ")}; ${held.events} events, ${held.orders} orders`);
}, 180_000);

const lengthOf = async (topic: string): Promise<number> =>
  (await product.admin.watermarks(topic)).reduce((sum, { high }) => sum + high, 0);
