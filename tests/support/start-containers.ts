// Starts the servers of docker-compose.yml on free ports, in a separate project, for all suites of
// one run, with topics, schemas, tables and demo clients.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DockerComposeEnvironment, Wait } from "testcontainers";
import type { TestProject } from "vitest/node";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { steps } from "../../modules/running/installation/steps.ts";
import { freePort } from "./ingest.ts";
import "./shared-stack.ts";

// The first run downloads images of about 2 GB.
const START_MS = 10 * 60_000;
/** As ops/secrets has it. */
const PASSWORD = "loopback-only";

/** Vitest calls this once before all suites. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [kafka, postgres, clickhouse, redis, registry] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const home = mkdtempSync(join(tmpdir(), "tributary-containers-"));
  const containers = await new DockerComposeEnvironment(repositoryRoot(), "docker-compose.yml")
    .withEnvironment({
      KAFKA_PORT: String(kafka),
      POSTGRES_PORT: String(postgres),
      CLICKHOUSE_PORT: String(clickhouse),
      REDIS_PORT: String(redis),
      REGISTRY_PORT: String(registry),
    })
    .withDefaultWaitStrategy(Wait.forHealthCheck())
    .withStartupTimeout(START_MS)
    .up(["kafka", "postgres", "clickhouse", "redis", "registry"]);
  const stop = async (): Promise<void> => {
    await containers.down({ removeVolumes: true });
    rmSync(home, { recursive: true, force: true });
  };
  const env = {
    TRIBUTARY_HOME: home,
    TRIBUTARY_SECRET: "the secret of a run of the suites on containers",
    KAFKA_BROKERS: `127.0.0.1:${kafka}`,
    SCHEMA_REGISTRY_URL: `http://127.0.0.1:${registry}`,
    REDIS_URL: `redis://tributary_owner:${PASSWORD}@127.0.0.1:${redis}`,
    CLICKHOUSE_URL: `http://tributary_owner:${PASSWORD}@127.0.0.1:${clickhouse}/tributary`,
    OBJECT_STORE_URL: "file:///tmp/tributary-containers/objects",
    POSTGRES_URL: `postgres://tributary_app:${PASSWORD}@127.0.0.1:${postgres}/tributary`,
    POSTGRES_ADMIN_URL: `postgres://tributary_owner:${PASSWORD}@127.0.0.1:${postgres}/tributary`,
  };
  let demo: Readonly<Record<string, unknown>> = {};
  try {
    const publish = (made: Readonly<Record<string, unknown>>): void => {
      demo = { ...demo, ...made };
    };
    for (const step of steps) await step.run({ env, home, publish });
  } catch (error) {
    await stop();
    throw error;
  }
  project.provide("stack", { env, demo });
  return stop;
}
