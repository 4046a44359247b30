// Starts one embedded stack of real servers for all suites that need one, with topics, schemas,
// tables and demo clients but without apps.
import type { TestProject } from "vitest/node";
import { startStack } from "../../infra/embedded/supervisor.ts";
import { steps } from "../../modules/running/installation/steps.ts";

const HOME = ".tributary/test";

/**
 * Vitest calls this once before all suites. Each run has a new home, so that it sees no data of an
 * earlier run.
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
