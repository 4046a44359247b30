// One embedded stack of real servers for all suites that need one: topics, schemas, tables and demo
// clients are there, apps are not.
import type { TestProject } from "vitest/node";
import { startStack } from "../../infra/embedded/supervisor.ts";
import { steps } from "../../modules/installation/steps.ts";

/** One for each share of the suites: npm test runs two of them side by side. */
const homeOf = ({ vitest: { config } }: TestProject): string => {
  const { shard } = config;
  return shard === undefined ? ".tributary/test" : `.tributary/test-${shard.index}`;
};

/**
 * What vitest calls once before all suites; a fresh home each time, so that no run sees another
 * one's data.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stack = await startStack({
    home: homeOf(project),
    fresh: true,
    isBrief: true,
    services: ["kafka", "postgres", "clickhouse", "redis", "registry"],
    steps,
  });
  project.provide("stack", { env: stack.env, demo: stack.run.demo });
  return () => stack.stop();
}
