// Two projects: `fast` needs no service and runs in seconds, `stack` shares one embedded stack of real servers, one file after the other.
import { defineConfig } from "vitest/config";

const needServers = ["contracts", "guarantees", "e2e", "stack", "api"].map((folder) => `tests/${folder}/**/*.test.ts`);

export default defineConfig({
  resolve: { alias: { "#failpoint": new URL("./stream/failpoint.ts", import.meta.url).pathname } },
  test: {
    reporters: ["default", "./tests/support/count-reporter.ts"],
    projects: [
      {
        extends: true,
        test: { name: "fast", include: ["tests/**/*.test.ts"], exclude: [...needServers, "tests/**/*-http.test.ts"], testTimeout: 30_000 },
      },
      {
        extends: true,
        test: {
          name: "stack",
          include: [...needServers, "tests/**/*-http.test.ts"],
          globalSetup: "./tests/support/start-stack.ts",
          fileParallelism: false,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
