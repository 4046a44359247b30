// Follows docs/first-hour.md: its files are written into a folder of the tests and compiled by the
// test runner, and the last one is run.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const page = readFileSync("docs/first-hour.md", "utf8");
const files = [...page.matchAll(/^```ts (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => ({
  name: name!,
  text: text!,
}));
const folder = `tests/first-hour-${process.pid}`;

beforeAll(() => {
  mkdirSync(folder);
  for (const { name, text } of files) writeFileSync(join(folder, name), text);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a newcomer who types the page has a pipeline with memory and facts whose tests pass", () => {
  expect(files.map(({ name }) => name)).toEqual(["topics.ts", "cafe.ts", "cafe.test.ts"]);
  const run = ["node_modules/vitest/vitest.mjs", "run", "--project", "fast", "--reporter", "json", folder];
  const env = { ...process.env, VITEST: "" };
  const { stdout, stderr } = spawnSync(process.execPath, run, { encoding: "utf8", env });
  const start = stdout.indexOf('{"numTotalTestSuites"');
  if (start < 0) throw new Error(stderr || stdout);
  const { numPassedTests, numTotalTests } = JSON.parse(stdout.slice(start).split("\n")[0]!);
  expect([numPassedTests, numTotalTests]).toEqual([5, 5]);
});

test("its sources keep to the types", () => {
  const typed = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.json", "--noEmit"], {
    encoding: "utf8",
  });
  expect(typed.stdout.split("\n").filter((line) => line.includes(folder))).toEqual([]);
}, 120_000);
