// The recipes of CONTRIBUTING.md work as written: all of them are applied to one copy of the
// sources, which is generated, compiled and tested as the page says.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

interface Block {
  readonly kind: string;
  readonly file: string;
  readonly text: string;
}
interface Recipe {
  readonly name: string;
  readonly blocks: readonly Block[];
}

const page = readFileSync("CONTRIBUTING.md", "utf8");
const recipes: readonly Recipe[] = (/^## Recipes$([\s\S]*?)^## /m.exec(page)?.[1] ?? "")
  .split(/^### /m)
  .slice(1)
  .map((section) => ({
    name: section.slice(0, section.indexOf("\n")),
    blocks: [...section.matchAll(/^```(\w+) (\S+)\n([\s\S]*?)^```$/gm)].map(([, kind, file, text]) => ({
      kind: kind!,
      file: file!,
      text: text!,
    })),
  }));
const ownTests = recipes.flatMap(({ blocks }) => blocks).filter(({ file }) => file.endsWith(".test.ts"));
const newSources = recipes
  .flatMap(({ blocks }) => blocks)
  .filter(({ kind, file }) => kind !== "diff" && file.endsWith(".ts"))
  .map(({ file }) => file);
/** Tests of the repository that read what the recipes touch. */
const affected = [
  "tests/topology/topology.test.ts",
  "tests/topology/imports.test.ts",
  "tests/topology/state-hash.test.ts",
  "tests/operations/metrics.test.ts",
  "tests/operations/routes.test.ts",
  "tests/processors/enrichment-guide.test.ts",
];

/** `...` at the end of a line stands for the rest of it. */
const isLine = (line: string | undefined, wanted: string): boolean =>
  line !== undefined && (wanted.endsWith("...") ? line.startsWith(wanted.slice(0, -3)) : line === wanted);

/** The hunks of a block, put where the lines that are there already stand, once in the file. */
const patched = (lines: readonly string[], block: Block): readonly string[] =>
  block.text.split(/^@@\n/m).reduce((now, text) => {
    const hunk = text.replace(/\n$/, "").split("\n");
    const known = hunk.filter((line) => !line.startsWith("+")).map((line) => line.slice(1));
    const places = now.flatMap((_, n) => (known.every((line, k) => isLine(now[n + k], line)) ? [n] : []));
    if (places.length !== 1)
      throw new Error(`${block.file} has ${places.length} places like this, not one:\n${known.join("\n")}`);
    let at = places[0]!;
    const put = hunk.flatMap((line) => {
      if (line.startsWith("+")) return [line.slice(1)];
      const kept = now[at++]!;
      return line.startsWith("-") ? [] : [kept];
    });
    return [...now.slice(0, places[0]), ...put, ...now.slice(at)];
  }, lines);

let copy: string;
const apply = (block: Block): void => {
  const file = join(copy, block.file);
  if (block.kind !== "diff") {
    if (existsSync(file)) throw new Error(`${block.file} is there already`);
    mkdirSync(dirname(file), { recursive: true });
  }
  const text = block.kind === "diff" ? patched(readFileSync(file, "utf8").split("\n"), block).join("\n") : block.text;
  writeFileSync(file, text);
};
const run = (...args: readonly string[]): void => {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: copy, encoding: "utf8" });
  if (status !== 0) throw new Error(`${args.join(" ")} failed in the copy:\n${stdout}${stderr}`);
};

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), "recipes-"));
  const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
  for (const file of tracked.toString().split("\0"))
    if (file !== "" && existsSync(file)) cpSync(file, join(copy, file));
  symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
});
afterAll(() => rmSync(copy, { recursive: true }));

test("each kind of change has a recipe", () =>
  expect(recipes.map(({ name }) => name)).toEqual([
    "A fraud rule",
    "A stage and its topic",
    "An edge",
    "A sink",
    "A migration",
    "A field of a record",
    "A route of the platform API",
    "A metric",
  ]));

describe("applied as written", () => {
  test.each(recipes)("$name fits the sources", ({ blocks }) => {
    for (const block of blocks) apply(block);
  });

  test("all of them together compile, and their tests pass", { timeout: 300_000 }, () => {
    run("scripts/generate.mjs");
    run("node_modules/typescript/bin/tsc", "-p", "tsconfig.json");
    run("node_modules/@biomejs/biome/bin/biome", "check", ...newSources);
    run("dist/apps/cli/generate/describe.js");
    run("dist/apps/cli/generate/metrics-page.js");
    expect(readFileSync(join(copy, "README.md"), "utf8")).toContain("stage_loyalty");
    run("node_modules/vitest/vitest.mjs", "run", "--project", "fast", ...ownTests.map(({ file }) => file), ...affected);
  });
});
