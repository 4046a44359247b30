// The keeper starts while every server is away, and each part joins once its servers answer.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { readConfig } from "../../apps/keeper/config.ts";
import { keeper } from "../../apps/keeper/keeper.ts";
import { lateWire } from "../../infra/avro/late-wire.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { openScope } from "../../infra/runtime/scope.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { topics } from "../../topics.ts";

/** No process listens on this port. */
const closedPort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });

test("the keeper probes its stores while the registry, the log and every store are away", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-away-"));
  const [away, opsPort] = [await closedPort(), await closedPort()];
  const config = readConfig({
    OPS_PORT: String(opsPort),
    TRIBUTARY_SECRET: "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA",
    KAFKA_BROKERS: `127.0.0.1:${away}`,
    SCHEMA_REGISTRY_URL: `http://127.0.0.1:${away}`,
    POSTGRES_URL: `postgres://app:secret@127.0.0.1:${away}/tributary`,
    CLICKHOUSE_URL: `http://127.0.0.1:${away}/tributary`,
    REDIS_URL: `redis://127.0.0.1:${away}`,
    OBJECT_STORE_URL: pathToFileURL(join(folder, "objects")).href,
  });
  const lines: string[] = [];
  const log = openLog({ app: "keeper", to: { write: (line) => lines.push(line) } });
  const failures: Error[] = [];
  const scope = openScope(log, (error) => failures.push(error));
  try {
    await keeper(config, log)(scope);
    const runs = await until("every probe has run", 20_000, async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
      const failed = [...metrics.matchAll(/tributary_schedule_failures_total\{.*schedule="(.*?)".* [1-9]/g)];
      const names = new Set(failed.map(([, name]) => name!));
      for (const name of ["probe-analytics-store", "probe-cache-store", "probe-relational-store", "outbox"])
        if (!names.has(name)) throw new Error(`${name} has not failed; failed: ${[...names]}`);
      return names;
    });
    expect(runs).toContain("probe-object-store");
    expect(failures).toEqual([]);
    expect(lines.filter((line) => line.includes('"app.started"'))).toHaveLength(1);
  } finally {
    await scope.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a wire asks the registry until it answers, one question at a time, and never again", async () => {
  let asked = 0;
  let isAway = true;
  const { wire, opened } = lateWire([topics.claims], {
    idOf: async () => {
      asked += 1;
      if (isAway) throw new Error("the registry is away");
      return 7;
    },
    schemaOf: async () => null,
  });
  const results = await Promise.allSettled([opened(), opened()]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(asked).toBe(1);
  expect(() => wire.decode(topics.claims, null, { topic: "claims", partition: 0, offset: 0 })).toThrow("registry");
  isAway = false;
  await opened();
  await opened();
  expect(asked).toBe(2);
  expect(() => wire.decode(topics.claims, null, { topic: "claims", partition: 0, offset: 0 })).not.toThrow("registry");
});
