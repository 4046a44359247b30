// Measures the cost of one claim as its order grows to 2,000 lines, and of one conversion as its
// partner grows to a million. It runs without servers, but packs and reads memory as Postgres
// stores it.
import { setImmediate } from "node:timers/promises";
import { packed, unpacked } from "../../infra/postgres/packed-values.ts";
import { table } from "../../infra/runtime/output.ts";
import { chain } from "../../stream/chain.ts";
import type { AnyTopic } from "../../stream/flow.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import type { InputMessage, OutputMessage, ProcessBatch } from "../../stream/messages.ts";
import { runner } from "../../stream/runner.ts";
import { clientId, noon } from "../../tests/support/builders.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { median, save } from "../figures.ts";
import { claimOf, control, stagePorts } from "./claims.ts";

const LINES = 2_000;
const CONVERSIONS = 1_000_000;
const A_BATCH = 500;
/**
 * Figures are means over this many conversions; the last ones should cost the same as the first.
 */
const WINDOW = 100_000;

/** Stores memory as Postgres would. `keeps` leaves out keys that this bench never reads again. */
const storing = (keeps: (key: string) => boolean) => {
  const values = new Map<string, { readonly version: number; readonly stored: Buffer }>();
  const bytes = { states: 0, outcomes: 0, read: 0 };
  const memory: Memory = {
    load: async ({ keys }) => ({
      versions: new Map(
        keys.flatMap((key) => {
          const known = values.get(key);
          if (known === undefined) return [];
          bytes.read += known.stored.length;
          const { version, stored } = known;
          return [[key, [{ eventId: "", offset: 0, version, value: unpacked(stored) }]]];
        }),
      ),
      outcomes: new Map(),
      truncated: new Map(),
      mark: Number.MAX_SAFE_INTEGER,
    }),
    remember: async (batch) => {
      for (const { changes, outcomes } of batch) {
        for (const { key, version, value } of changes) {
          const stored = Buffer.from(packed(value));
          bytes.states += stored.length;
          if (keeps(key)) values.set(key, { version, stored });
        }
        for (const outcome of outcomes) bytes.outcomes += packed(outcome.bytes).length;
      }
      return "remembered";
    },
  };
  return { memory, bytes };
};

const running = (stage: string, durable: Memory, produce: (messages: readonly OutputMessage[]) => void) =>
  runner(chain(pipeline, [stage]), stagePorts(durable, produce));
const cpuUsOf = async (process_: ProcessBatch, topic: AnyTopic, values: readonly Buffer[]): Promise<number> => {
  const messages = values.map((value, offset): InputMessage => {
    return { offset, key: null, value, headers: {}, appendedAt: noon };
  });
  const before = process.cpuUsage();
  await process_({ topic: topic.name, partition: 0, messages }, control);
  const { user, system } = process.cpuUsage(before);
  return user + system;
};

/** Adds lines to one order, `batch` claims at a time. */
const growingOrder = async (batch: number) => {
  const { memory, bytes } = storing(() => true);
  const settle = running("settle", memory, () => undefined);
  const costs: number[] = [];
  for (let n = 0; n < LINES; n += batch) {
    const values = Array.from({ length: Math.min(batch, LINES - n) }, (_, i) => claimOf(n + i, { order: "o1" }));
    costs.push((await cpuUsOf(settle, topics.claims, values)) / values.length);
    await setImmediate();
  }
  const some = Math.max(1, Math.floor(costs.length / 10));
  return {
    batch,
    cpuSeconds: costs.reduce((sum, us) => sum + us, 0) * batch * 1e-6,
    firstUs: median(costs.slice(0, some)),
    lastUs: median(costs.slice(-some)),
    statesMiB: bytes.states / 2 ** 20,
    readMiB: bytes.read / 2 ** 20,
    outcomesMiB: bytes.outcomes / 2 ** 20,
  };
};

/** Makes orders of one line each, all for one partner. */
const growingPartner = async () => {
  // Keys of an order, its conversion and its customer are used only once here.
  const { memory, bytes } = storing((key) => key.includes("|period:"));
  let made: Buffer[] = [];
  const settle = running("settle", memory, (messages) => {
    made = messages.flatMap(({ topic, value }) => (topic === topics.conversions.name ? value! : []));
  });
  const commission = running("commission", memory, () => undefined);
  const windows = [];
  for (let from = 0; from < CONVERSIONS; from += WINDOW) {
    let settleUs = 0;
    let commissionUs = 0;
    for (let n = from; n < from + WINDOW; n += A_BATCH) {
      const values = Array.from({ length: A_BATCH }, (_, i) => claimOf(n + i, { order: `order-${n + i}` }));
      settleUs += await cpuUsOf(settle, topics.claims, values);
      commissionUs += await cpuUsOf(commission, topics.conversions, made);
    }
    const { rss, heapUsed } = process.memoryUsage();
    windows.push({
      conversions: from + WINDOW,
      settleUs: settleUs / WINDOW,
      commissionUs: commissionUs / WINDOW,
      heapMiB: heapUsed / 2 ** 20,
      rssMiB: rss / 2 ** 20,
    });
  }
  return { windows, bytesEach: (bytes.states + bytes.outcomes) / CONVERSIONS };
};

export const run = async (): Promise<void> => {
  const orders = [];
  for (const batch of [1, A_BATCH]) orders.push(await growingOrder(batch));
  process.stdout.write(
    `one order of ${LINES} lines, clients of ${clientId}\n${table(
      ["claims a batch", "CPU s", "us first", "us last", "MiB states", "MiB read", "MiB outcomes"],
      orders.map((one) => [
        String(one.batch),
        one.cpuSeconds.toFixed(1),
        one.firstUs.toFixed(0),
        one.lastUs.toFixed(0),
        one.statesMiB.toFixed(1),
        one.readMiB.toFixed(1),
        one.outcomesMiB.toFixed(1),
      ]),
    )}\n\n`,
  );
  const partners = await growingPartner();
  process.stdout.write(
    `one partner, ${partners.bytesEach.toFixed(0)} bytes of values a conversion\n${table(
      ["conversions", "settle us", "commission us", "heap MiB", "rss MiB"],
      partners.windows.map((one) => [
        String(one.conversions),
        one.settleUs.toFixed(1),
        one.commissionUs.toFixed(1),
        one.heapMiB.toFixed(0),
        one.rssMiB.toFixed(0),
      ]),
    )}\n\n`,
  );
  process.stdout.write(`kept in ${save("money", { orders, partners })}\n`);
};
