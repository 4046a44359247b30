// One embedded stack of real servers for all suites that need one: topics, schemas, tables and demo
// clients are there, apps are not.
import type { TestProject } from "vitest/node";
import { startStack } from "../../infra/embedded/supervisor.ts";
import { steps } from "../../modules/running/installation/steps.ts";

const HOME = ".tributary/test";

/**
 * What vitest calls once before all suites; a fresh home each time, so that no run sees another
 * one's data.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stack = await startStack({
    home: HOME,
    fresh: true,
    services: ["kafka", "postgres", "clickhouse", "redis", "registry"],
    steps,
  });
  project.provide("stack", { env: stack.env, demo: stack.run.demo });
  return () => stack.stop();
}
