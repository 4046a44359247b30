// Starts one embedded stack of real servers for all suites that need one, with topics, schemas,
// tables and demo clients but without apps.
import type { TestProject } from "vitest/node";
import { startInstallation } from "./e2e-product.ts";

/** Vitest calls this once before all suites. Each run starts from a new home. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { stack, clear } = await startInstallation([], [], () => undefined);
  project.provide("stack", { env: stack.env, demo: stack.run.demo });
  return clear;
}
