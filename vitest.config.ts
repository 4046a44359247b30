// Four projects. `fast` needs no server and runs in seconds; `gate` measures, so nothing runs
// beside it; then two lanes, each one file at a time: `shared` has one embedded stack of real
// servers for all its files, `own` holds the files that start servers of their own, to kill them.
// scripts/test.mjs runs the two lanes side by side.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const folders = ["contracts", "guarantees", "e2e", "stack", "api"];
const measures = "tests/bench/**/*.test.ts";

/** A file that asks for the shared stack says so by its imports; the rest bring their servers. */
const sharesStack = (file: string): boolean => /\/(shared-stack|fresh-database)\.ts"/.test(readFileSync(file, "utf8"));
const needServers = readdirSync("tests", { recursive: true, encoding: "utf8" })
  .map((file) => join("tests", file))
  .filter((file) => file.endsWith(".test.ts"))
  .filter((file) => file.endsWith("-http.test.ts") || folders.includes(file.split("/")[1]!));

const lane = {
  fileParallelism: false,
  testTimeout: 60_000,
  hookTimeout: 120_000,
};

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
          exclude: [...needServers, measures],
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
          ...lane,
          name: "shared",
          include: needServers.filter(sharesStack),
          globalSetup: "./tests/support/start-stack.ts",
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          ...lane,
          name: "own",
          include: needServers.filter((file) => !sharesStack(file)),
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
