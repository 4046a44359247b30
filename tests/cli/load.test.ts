// What a command loads before it does anything. Its CPU is nearly all loading, so the packages are
// listed here, not the time; `npm run bench -- commands` measures the time.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "tributary-load-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Load {
  readonly packages: readonly string[];
  readonly own: readonly string[];
}
/** Node's coverage names every file that a process has loaded. Nothing answers on the port. */
const loadOf = (...args: readonly string[]): Load => {
  const coverage = mkdtempSync(join(folder, "coverage-"));
  const closed = "127.0.0.1:1";
  const env = {
    PATH: process.env.PATH,
    NODE_V8_COVERAGE: coverage,
    TRIBUTARY_HOME: folder,
    TRIBUTARY_SECRET: "a-secret-of-this-test-0123456789abcdef",
    KAFKA_BROKERS: closed,
    SCHEMA_REGISTRY_URL: `http://${closed}`,
    POSTGRES_URL: `postgres://tributary_app:hidden@${closed}/tributary`,
    CLICKHOUSE_URL: `http://tributary_app:hidden@${closed}/tributary`,
  };
  spawnSync(process.execPath, ["dist/apps/cli/main.js", ...args], { env });
  const urls = readdirSync(coverage).flatMap((name) =>
    (JSON.parse(readFileSync(join(coverage, name), "utf8")) as { result: { url: string }[] }).result.map(
      ({ url }) => url,
    ),
  );
  const packageOf = (url: string) => /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1];
  return {
    packages: [...new Set(urls.flatMap((url) => packageOf(url) ?? []))].sort(),
    own: urls.filter((url) => packageOf(url) === undefined && url.includes("/dist/")),
  };
};

/** What pg brings with it. */
const PG = ["pg", "pg-connection-string", "pg-int8", "pg-pool", "pg-protocol", "pg-types"];
const PG_TYPES = ["postgres-array", "postgres-bytea", "postgres-date", "postgres-interval", "xtend"];

test("help loads the parser of words alone", () => {
  const { packages, own } = loadOf("--help");
  expect(packages).toEqual(["commander"]);
  expect(own.length).toBeLessThan(12);
});

test("status loads Postgres, and neither what checks settings nor what writes logs", () => {
  const { packages, own } = loadOf("status");
  expect(packages).toEqual(["commander", ...PG, ...PG_TYPES].sort());
  expect(own.length).toBeLessThan(40);
});

test("explain loads Postgres and ClickHouse, and neither the log nor what checks settings", () => {
  const { packages, own } = loadOf("explain", "order-1");
  expect(packages).toEqual(["@clickhouse/client", "commander", ...PG, ...PG_TYPES].sort());
  expect(own.length).toBeLessThan(110);
});
