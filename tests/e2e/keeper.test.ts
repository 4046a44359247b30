// The keeper as a process: two of them share the work without doing it twice, a killed one leaves
// no work undone, and a stop is clean.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { waitingRollups } from "../../modules/figures/rollups/rollup-marks.ts";
import { figuresByDay } from "../../modules/figures/rollups/rollup-reads.ts";
import type { ReferenceChanged } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { topics } from "../../topics.ts";
import { attributed, dayMs, noon, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!);
let clickhouse: Clickhouse;
const started = new Set<ChildProcess>();
beforeAll(() => {
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
});
afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  await Promise.all([clickhouse.close(), pool.end()]);
});

const until = async (what: string, isSo: () => boolean | Promise<boolean>): Promise<void> => {
  for (const deadline = Date.now() + 90_000; !(await isSo()); await new Promise((resolve) => setTimeout(resolve, 50)))
    if (Date.now() > deadline) throw new Error(`${what} did not come within 90 s`);
};
const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });

const keeper = async () => {
  const port = await freePort();
  const { POSTGRES_ADMIN_URL: _, ...given } = env;
  const child = spawn(process.execPath, ["dist/apps/keeper/main.js"], {
    env: {
      PATH: process.env.PATH,
      ...given,
      OPS_PORT: String(port),
      INSTANCE_NAME: `keeper-${port}`,
      LOG_LEVEL: "warn",
    },
    stdio: ["ignore", "inherit", "inherit"],
  });
  started.add(child);
  const ended = new Promise<{ readonly code: number | null; readonly signal: string | null }>((resolve) =>
    child.once("exit", (code, signal) => {
      started.delete(child);
      resolve({ code, signal });
    }),
  );
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    return { status: answer?.status, text: (await answer?.text()) ?? "" };
  };
  await until("a ready keeper", async () => (await ask("/readyz")).status === 200);
  return {
    ask,
    stop: (signal: NodeJS.Signals) => {
      child.kill(signal);
      return ended;
    },
  };
};

let lastTenant = 700_000_000 + (Date.now() % 1_000_000) * 100;
/** Writes rows and then marks for events of one tenant, as the analytics sink does. */
const store = async (client_id: number, from: number, count: number): Promise<void> => {
  const rows = Array.from({ length: count }, (_, n) =>
    attributed({
      client_id,
      event_id: `00000000-0000-8000-8000-${(from + n).toString(16).padStart(12, "0")}`,
      order_id: `o${from + n}`,
      ts: noon + (n % 120) * 60_000,
      value_minor: 1_00n,
    }),
  ).flatMap((data) => eventRows(recorded(topics.eventsAttributed, data)));
  await clickhouseStore(clickhouse).within({ tenants: [client_id], token: `keeper/${client_id}/${from}` }, (write) =>
    events.write(rows, write),
  );
  const { of, into } = events.marks!;
  await postgresStore(pool).within({ tenants: [client_id], token: "" }, (write) => into.write(of(rows), write));
};
const revenueOf = async (tenant: number): Promise<bigint> =>
  (await figuresByDay(clickhouse, scopeOf(tenant), { from: noon - 2 * dayMs, to: noon + 2 * dayMs })).reduce(
    (sum, { revenue_minor }) => sum + revenue_minor,
    0n,
  );

test("two keepers compute and send everything once, a killed one is made up for, and a stop ends with 0", async () => {
  lastTenant += 1;
  const tenant = lastTenant;
  const [first, second] = await Promise.all([keeper(), keeper()]);
  await store(tenant, 1, 500);
  await until("the first figures", async () => (await revenueOf(tenant)) === 500_00n);

  // One keeper is killed while marks come in, and the other goes on with the rest.
  const storing = (async () => {
    for (let n = 0; n < 10; n += 1) await store(tenant, 1_000 + n * 100, 100);
  })();
  expect(await first.stop("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
  await storing;
  await until("the figures of both", async () => (await revenueOf(tenant)) === 1_500_00n);
  await until("no mark", async () => (await waitingRollups(pool)).count === 0);

  const slug = `keeper-${Date.now()}`;
  const saved = await writeReference(pool, "test", { clients: [{ client_id: -1, slug, name: "One" }] });
  await writeReference(pool, "test", { clients: [{ client_id: saved.idOf("clients", -1), name: "Two" }] });
  const wire = await openWire([topics.referenceChanges], openRegistry({ url: env.SCHEMA_REGISTRY_URL! }));
  const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "keeper-test" });
  const announced = async (): Promise<readonly ReferenceChanged[]> => {
    const found: ReferenceChanged[] = [];
    await kafka.replay({
      topics: ["reference.changes"],
      onBatch: ({ messages }) => {
        for (const { value, offset } of messages)
          found.push(
            wire.decode(topics.referenceChanges, value, { topic: "reference.changes", partition: 0, offset }).data,
          );
      },
    });
    return found.filter(
      ({ entity, entity_id }) => entity === "client" && entity_id === String(saved.idOf("clients", -1)),
    );
  };
  await until("the announced change", async () => (await announced()).length >= 2);
  expect((await announced()).map(({ version }) => version)).toEqual([1, 2]);

  const { text } = await second.ask("/metrics");
  expect(text).toMatch(/tributary_schedule_done_total\{schedule="rollups",app="keeper"\} [1-9]/);
  expect(text).toMatch(/tributary_schedule_done_total\{schedule="outbox",app="keeper"\} [1-9]/);
  // Every schedule has its series from the start; none has failed.
  expect(text).toMatch(/^tributary_schedule_failures_total\{schedule="outbox",.*\} 0$/m);
  expect(text).not.toMatch(/^tributary_schedule_failures_total\{.*\} [1-9]/m);
  expect(await second.stop("SIGTERM")).toEqual({ code: 0, signal: null });
}, 240_000);
