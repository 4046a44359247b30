// The projects. `fast` and `apart` need no server and run in 90 s; `thorough` needs none
// either, but takes its time; `gate` measures, so nothing runs beside it. The rest runs one file at
// a time: `shared` on one embedded stack of real servers, `product` on one installation with all of
// its apps, the others (`guarantees`, `e2e`, `suite`, `servers`, `drills`) on servers of their own,
// which they kill. scripts/test.mjs runs two or three of these side by side, and `drills` only when
// asked.
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { quickStart } from "./tests/support/broker-jvm.ts";

const folders = ["contracts", "guarantees", "e2e", "stack", "api", "drills"];
const measures = "tests/bench/**/*.test.ts";

/** A file that asks for the shared stack says so by its imports; the rest bring their servers. */
const sharesStack = (file: string): boolean =>
  /\/(shared-stack|fresh-database|api-suite|canary-world)\.ts"/.test(readFileSync(file, "utf8"));
/** True for a file that uses the installation of the project `product`. */
const joinsProduct = (file: string): boolean => readFileSync(file, "utf8").includes('/joined-product.ts"');
const files = readdirSync("tests", { recursive: true, encoding: "utf8" })
  .map((file) => join("tests", file))
  .filter((file) => file.endsWith(".test.ts"));
const needServers = files.filter((file) => file.endsWith("-http.test.ts") || folders.includes(file.split("/")[1]!));

/**
 * Ten thousands of random histories, a million keys, sources of pages that are compiled, every
 * command started, a minute that is waited for, and hours of made-up time.
 */
const thorough = [
  ...["tests/processors/oracle/**/*.test.ts", "tests/**/*.laws.test.ts", "tests/operations/million.test.ts"],
  ...["tests/recipes/**/*.test.ts", "tests/docs/first-hour.test.ts", "tests/cli/commands.test.ts"],
  ...["tests/edges/slow-requests.test.ts", "tests/operations/alerts.test.ts"],
];
/**
 * A file that mocks a module, loads kafkajs as it comes or measures its own process has a process
 * of its own; the others of `fast` share one a core, which reads each module once.
 */
const needsOwnProcess = (file: string): boolean =>
  /\bvi\.mock\(|"kafkajs[/"]|\bcpuUsage\(|\bmemoryUsage\(/.test(readFileSync(file, "utf8"));
const apart = files.filter((file) => !needServers.includes(file) && needsOwnProcess(file));
/** The longest file is a project, so that it can run beside the others. */
const suite = "tests/guarantees/suite.test.ts";
const own = needServers.filter((file) => file !== suite && !sharesStack(file) && !joinsProduct(file));
const within = (folder: string) => own.filter((file) => file.startsWith(`tests/${folder}/`));
const guarantees = within("guarantees");
const e2e = within("e2e");
/** Runs the commands of runbooks and pages: `npm run drills`, not part of `npm test`. */
const drills = within("drills");
const servers = own.filter((file) => ![...guarantees, ...e2e, ...drills].includes(file));
const ownServers = { guarantees, e2e, suite: [suite], servers, drills };

/** vitest leaves one core free, which of two is half. */
const everyCore = { maxWorkers: availableParallelism() };
const quick = { testTimeout: 120_000, hookTimeout: 120_000, ...everyCore, sequence: { groupOrder: 0 } };
/** The limits end what hangs. What must be quick is asserted where it must be. */
const lane = {
  fileParallelism: false,
  testTimeout: 180_000,
  hookTimeout: 300_000,
};

process.env.JDK_JAVA_OPTIONS ??= quickStart;

export default defineConfig({
  resolve: { alias: { "#failpoint": new URL("./stream/failpoint.ts", import.meta.url).pathname } },
  test: {
    reporters: ["default", "./tests/support/count-reporter.ts"],
    // A busy machine answers late: vitest itself gives up after a second.
    expect: { poll: { timeout: 20_000 } },
    projects: [
      {
        extends: true,
        test: {
          ...quick,
          name: "fast",
          include: ["tests/**/*.test.ts"],
          exclude: [...needServers, ...apart, ...thorough, measures],
          isolate: false,
        },
      },
      { extends: true, test: { ...quick, name: "apart", include: apart, exclude: thorough } },
      {
        extends: true,
        test: { ...quick, name: "thorough", include: thorough, exclude: needServers, testTimeout: 300_000 },
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
          isolate: false,
          include: needServers.filter(sharesStack),
          globalSetup: "./tests/support/start-stack.ts",
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          ...lane,
          name: "product",
          isolate: false,
          include: needServers.filter(joinsProduct),
          globalSetup: "./tests/support/start-product.ts",
          sequence: { groupOrder: 3 },
        },
      },
      ...Object.entries(ownServers).map(([name, include], n) => ({
        extends: true as const,
        // Files of one process read each module once.
        test: { ...lane, name, include, isolate: false, sequence: { groupOrder: 4 + n } },
      })),
    ],
  },
});
