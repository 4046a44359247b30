// Three projects, one after the other: `fast` needs no service and runs in seconds; `gate`
// measures, so nothing runs beside it; `stack` shares one embedded stack of real servers, one file
// at a time.
import { defineConfig } from "vitest/config";

const needServers = ["contracts", "guarantees", "e2e", "stack", "api"].map((folder) => `tests/${folder}/**/*.test.ts`);
const measures = "tests/bench/**/*.test.ts";

export default defineConfig({
  resolve: { alias: { "#failpoint": new URL("./stream/failpoint.ts", import.meta.url).pathname } },
  test: {
    reporters: ["default", "./tests/support/count-reporter.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "fast",
          include: ["tests/**/*.test.ts"],
          exclude: [...needServers, measures, "tests/**/*-http.test.ts"],
          testTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: "gate", include: [measures], fileParallelism: false, sequence: { groupOrder: 1 } },
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
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
