// Addresses of listeners: the port of an app listens where it is configured, its side port on the
// loopback.
import { spawn } from "node:child_process";
import { request } from "node:http";
import { afterEach, expect, test } from "vitest";
import { readConfig as apiConfig } from "../../apps/api/config.ts";
import { readConfig as ingestConfig } from "../../apps/ingest/config.ts";
import { readConfig as keeperConfig } from "../../apps/keeper/config.ts";
import { readConfig as linksConfig } from "../../apps/links/config.ts";
import { readConfig as pixelConfig } from "../../apps/pixel/config.ts";
import { readConfig as uploadConfig } from "../../apps/upload/config.ts";
import { readConfig as workerConfig } from "../../apps/worker/config.ts";
import { type Ops, openOps } from "../../infra/http/app/side-port.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { appPasswordOf } from "../../modules/running/installation/steps.ts";

let ops: Ops | undefined;
afterEach(() => ops?.close());

const env = {
  TRIBUTARY_SECRET: "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA",
  KAFKA_BROKERS: "kafka:9092",
  SCHEMA_REGISTRY_URL: "http://registry:8081",
  REDIS_URL: "redis://redis:6379",
  POSTGRES_URL: "postgres://tributary_app:p@postgres:5432/tributary",
  CLICKHOUSE_URL: "http://tributary:p@clickhouse:8123/tributary",
  OBJECT_STORE_URL: "file:///objects",
};

const configs = {
  ingest: ingestConfig,
  links: linksConfig,
  pixel: pixelConfig,
  upload: uploadConfig,
  worker: workerConfig,
  keeper: keeperConfig,
  api: apiConfig,
};
test.each(Object.entries(configs))(
  "the side port of %s stays on the loopback when its port is open to the world",
  (_, readConfig) => {
    const opsPort = (given: Readonly<Record<string, string>>) =>
      readConfig({ ...env, HOST: "0.0.0.0", ...given }).OPS_PORT;
    expect(opsPort({})).toEqual({ host: "127.0.0.1", port: 9080 });
    expect(opsPort({ OPS_PORT: "9181" })).toEqual({ host: "127.0.0.1", port: 9181 });
    expect(opsPort({ OPS_PORT: "10.0.0.5:9080" })).toEqual({ host: "10.0.0.5", port: 9080 });
    expect(opsPort({ OPS_PORT: "[::1]:0" })).toEqual({ host: "::1", port: 0 });
    for (const wrong of ["x", "70000", "10.0.0.5:", "::1:9080", "10.0.0.5 :9080"])
      expect(() => opsPort({ OPS_PORT: wrong }), wrong).toThrow("OPS_PORT: must be a port, or address:port");
  },
);

test("the side port answers at its own address alone", async () => {
  const metrics = openMetrics({ app: "test", version: "0", commit: "0" });
  ops = await openOps({ port: 0, host: "127.0.0.2", checks: {}, metrics });
  expect((await fetch(`http://127.0.0.2:${ops.port}/livez`)).status).toBe(200);
  await expect(fetch(`http://127.0.0.1:${ops.port}/livez`)).rejects.toThrow("fetch failed");
});

test("a side port on the loopback answers no other host and no page", async () => {
  const metrics = openMetrics({ app: "test", version: "0", commit: "0" });
  ops = await openOps({ port: 0, checks: {}, metrics });
  const statusOf = (headers: Readonly<Record<string, string>>): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const options = { port: ops!.port, host: "127.0.0.1", path: "/metrics", headers, agent: false };
      const asked = request(options, (answered) => {
        answered.resume();
        resolve(answered.statusCode);
      });
      asked.once("error", reject);
      asked.end();
    });
  expect(await statusOf({})).toBe(200);
  expect(await statusOf({ host: `localhost:${ops.port}` })).toBe(200);
  expect(await statusOf({ host: "pages.example" })).toBe(403);
  expect(await statusOf({ origin: "https://pages.example" })).toBe(403);
});

test("migrations take the password of the application's role from its address, and refuse one without", () => {
  expect(appPasswordOf("postgres://tributary_app:p%40ss@postgres:5432/tributary")).toBe("p@ss");
  for (const url of ["postgres://tributary_app@postgres/tributary", "postgres://tributary_owner:p@postgres/tributary"])
    expect(() => appPasswordOf(url)).toThrow(/^POSTGRES_URL must name the role tributary_app and its password/);
});

test("the health check of the image asks where the side port listens", async () => {
  const metrics = openMetrics({ app: "test", version: "0", commit: "0" });
  ops = await openOps({ port: 0, host: "127.0.0.2", checks: {}, metrics });
  const answered = async (opsPort: string): Promise<number | null> =>
    new Promise((resolve) => {
      spawn(process.execPath, ["scripts/healthy.mjs"], { env: { OPS_PORT: opsPort } }).once("exit", resolve);
    });
  expect(await answered(`127.0.0.2:${ops.port}`)).toBe(0);
  expect(await answered(String(ops.port))).toBe(1);
});
