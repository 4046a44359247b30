// SIGTERM at any moment under load: the worker exits with 0 in time, and its commits match exactly
// what it processed: nothing lost, nothing twice.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConfig } from "../../apps/worker/config.ts";
import { worker } from "../../apps/worker/worker.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { run } from "../../infra/runtime/scope.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { step, toy, toys } from "../support/toy.ts";

const { env } = sharedStack();
const topicPrefix = `shutdown-${randomUUID()}.`;
const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "shutdown-test", topicPrefix });
const registry = openRegistry({ url: env.SCHEMA_REGISTRY_URL!, topicPrefix });
const producer = kafka.producer();
const topics = Object.values(toys);

beforeAll(async () => {
  const admin = await kafka.admin();
  await admin.apply(topics.map(({ name, partitions }) => ({ name, partitions, retentionMs: -1 })));
  await admin.close();
  await registry.apply(topics);
});
afterAll(async () => {
  await producer.close();
  const admin = await kafka.admin();
  await admin.deleteTopics(topics.map(({ name }) => name));
  await admin.close();
});

/** A worker in this process, whose signals and exit the test controls. */
const started = async () => {
  const config = readConfig({
    ...env,
    CLICKHOUSE_URL: env.CLICKHOUSE_URL ?? "http://127.0.0.1:1",
    KAFKA_TOPIC_PREFIX: topicPrefix,
    OPS_PORT: "0",
  });
  const listeners = new Map<string, (given: unknown) => void>();
  const lines: string[] = [];
  const log = openLog({ app: "worker", to: { write: (line) => void lines.push(line) } });
  const exited = new Promise<number>((resolve) =>
    run(worker(toy, groupsOf(toy, ["check,walk"]), config, log), log, {
      on: (event, listener) => listeners.set(event, listener),
      exit: resolve,
    }),
  );
  await expect.poll(() => lines.some((line) => line.includes("app.started")), { timeout: 30_000 }).toBe(true);
  return { terminate: () => listeners.get("SIGTERM")!("SIGTERM"), exited, lines };
};

const walked = async (): Promise<readonly string[]> => {
  const wire = await openWire(topics, registry);
  const ids: string[] = [];
  await kafka.replay({
    topics: ["toy.walked"],
    onBatch: ({ messages }) => {
      for (const { value } of messages)
        ids.push(wire.decode(toys.walked, value, { topic: "", partition: 0, offset: 0 }).id);
    },
  });
  return ids;
};

test("a worker that is asked to stop finishes its batch, commits it and leaves; the next one goes on " +
  "exactly there", async () => {
  const wire = await openWire(topics, registry);
  let published = 0;
  const publish = async (count: number): Promise<void> =>
    producer.send(
      Array.from({ length: count }, () => {
        const data = step(`s${published++}`, { place: `p${published % 7}` });
        const event = {
          id: data.id,
          key: data.place,
          at: 1,
          receivedAt: 1,
          position: { topic: "", partition: 0, offset: 0 },
          data,
        };
        return { topic: "toy.raw", key: data.place, value: wire.encode(toys.raw, event, null) };
      }),
    );
  for (let round = 0; round < 6; round++) {
    const { terminate, exited, lines } = await started();
    let isOver = false;
    const load = (async () => {
      while (!isOver) await publish(200);
    })();
    // Each round stops at another moment of the batch, because more events were published before
    // it.
    const enough = published + 400 * (round + 1);
    await expect.poll(() => published, { timeout: 30_000, interval: 1 }).toBeGreaterThan(enough);
    const at = performance.now();
    terminate();
    expect(await exited, lines.join("")).toBe(0);
    expect(performance.now() - at).toBeLessThan(20_000);
    isOver = true;
    await load;
  }
  const last = await started();
  const admin = await kafka.admin();
  await expect
    .poll(async () => (await admin.lag("tributary.check", ["toy.raw"])).reduce((sum, { lag }) => sum + lag, 0), {
      timeout: 30_000,
    })
    .toBe(0);
  await admin.close();
  last.terminate();
  expect(await last.exited).toBe(0);
  const ids = await walked();
  expect(new Set(ids).size).toBe(published);
  expect(ids).toHaveLength(published);
}, 120_000);
