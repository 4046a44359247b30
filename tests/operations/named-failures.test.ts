// The end of a test run names its failures, because often nothing else is shown.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "tributary-failures-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The last lines of a run of one file. */
const endOf = (source: string): readonly string[] => {
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  const reporter = JSON.stringify(resolve("tests/support/count-reporter.ts"));
  const config = `export default { test: { name: "fast", globals: true, reporters: [${reporter}] } };\n`;
  writeFileSync(join(folder, "vitest.config.mjs"), config);
  writeFileSync(join(folder, "shop.test.js"), source);
  const args = [resolve("node_modules/vitest/vitest.mjs"), "run", "--root", folder];
  const { stdout } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, VITEST: "" },
  });
  return stdout.trim().split("\n");
};

test("a line for each failure, with its reason and place, and then the counts", () => {
  const lines = endOf(`import fc from "fast-check";
describe("a shop", () => {
  test("is open", () => {});
  test("sells bread", () => expect({ bread: 1, milk: 2 }).toMatchObject({ bread: 2 }));
  test("reads any order", () => fc.assert(fc.property(fc.nat(), (n) => n < 0), { seed: 42 }));
  test("says why", () => Promise.reject(new Error("no bread", { cause: new Error("the oven is cold") })));
});
describe("a closed shop", () => {
  beforeAll(() => { throw new Error("the door is locked"); });
  test("is asked", () => {});
});
`);
  expect(lines.slice(-5)).toEqual([
    expect.stringMatching(/^FAILED fast > shop.test.js > a closed shop: the door is locked \(shop.test.js:9\)$/),
    expect.stringMatching(
      /^FAILED fast > shop.test.js > a shop > sells bread: .+ - "bread": 2, \+ "bread": 1, \(shop.test.js:4\)$/,
    ),
    expect.stringMatching(/^FAILED fast > shop.test.js > a shop > reads any order: Property failed .+ seed: 42, /),
    expect.stringMatching(/> a shop > says why: no bread \(cause: the oven is cold\) \(shop.test.js:6\)$/),
    "1 passed, 4 failed, 1 skipped",
  ]);
});
