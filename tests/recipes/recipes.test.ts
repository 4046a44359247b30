// The recipes of CONTRIBUTING.md work as written: all of them are applied to one copy of the
// sources, which is then generated, compiled and tested as the page says.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";

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
/** Tests of the repository that read files which recipes change. */
const affected = [
  "tests/topology/topology.test.ts",
  "tests/topology/imports.test.ts",
  "tests/topology/state-hash.test.ts",
  "tests/topology/hosting.test.ts",
  "tests/topology/schema-attributes.test.ts",
  "tests/sinks/schema-evolution.test.ts",
  "tests/sinks/transcode.test.ts",
  "tests/edges/batch-admit.test.ts",
  "tests/operations/containers.test.ts",
  "tests/operations/metrics.test.ts",
  "tests/operations/routes.test.ts",
  "tests/processors/enrichment-guide.test.ts",
];

/** `...` at the end of a line stands for its rest. */
const isLine = (line: string | undefined, wanted: string): boolean =>
  line !== undefined && (wanted.endsWith("...") ? line.startsWith(wanted.slice(0, -3)) : line === wanted);

/** Applies the hunks of a block. Their existing lines must occur exactly once in the file. */
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

/** The exports of the copy, as JSON. */
const exportsOf = (module: string, names: readonly string[]): Readonly<Record<string, any>> => {
  const values = names.map((name) => `${name}: ${name} instanceof Set ? [...${name}] : ${name}`).join(", ");
  const text = `import { ${names.join(", ")} } from "./dist/${module}"; console.log(JSON.stringify({ ${values} }));`;
  const args = ["--input-type=module", "--eval", text];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: copy, encoding: "utf8" }));
};
/** The new sink and stage appear in every list of the pipeline, without a step in the recipe. */
const expectListed = (): void => {
  const source = (file: string): string => readFileSync(join(copy, file), "utf8");
  const sinks = "analytics,product-sales,refunds,app-events,identity,velocity,consent";
  const { workerGroups } = exportsOf("modules/running/installation/product.js", ["workerGroups"]);
  expect(workerGroups).toEqual(expect.arrayContaining(["loyalty", sinks]));
  const { services } = parse(source("docker-compose.yml"), { merge: true, maxAliasCount: -1 });
  expect(services["worker-money"].command).toEqual(expect.arrayContaining(["loyalty", sinks]));
  expect(source("docs/operate.md")).toMatch(new RegExp(`^node dist/apps/worker/main.js .*\\bloyalty .*${sinks}`, "m"));
  for (const node of ["stage_loyalty", "sink_refunds"]) expect(source("README.md")).toContain(node);
  expect(source("docs/runbooks/replay-of-a-day.md")).toMatch(/^\| `events.attributed` \| .*`refunds`/m);
  const { hashableTables } = exportsOf("modules/running/state-hash/state-hash.js", ["hashableTables"]);
  expect(hashableTables).toContain("refunds");
  const { parts, sinkTables, readGroups } = exportsOf("tools/chaos/hosting.js", ["parts", "sinkTables", "readGroups"]);
  expect(sinkTables).toContain("refunds");
  expect(readGroups).toContainEqual({ name: "tributary.loyalty", topic: "events.attributed", arg: "loyalty" });
  const rebuilt = (input: string) =>
    parts.find((part: any) => part.input === input).groups.map(({ arg }: { readonly arg: string }) => arg);
  expect([rebuilt("events.raw"), rebuilt("events.attributed")]).toEqual([
    ["enrich,score,attribute", sinks, "claim-positions"],
    ["loyalty"],
  ]);
};

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), "recipes-"));
  const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
  for (const file of tracked.toString().split("\0"))
    if (file !== "" && existsSync(file)) cpSync(file, join(copy, file));
  symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
});
afterAll(() => rmSync(copy, { recursive: true }), 60_000);

test("each kind of change has a recipe", () =>
  expect(recipes.map(({ name }) => name)).toEqual([
    "A fraud rule",
    "A stage and its topic",
    "An edge",
    "A sink",
    "A migration",
    "A field of a record",
    "A stored event property",
    "A route of the platform API",
    "A metric",
  ]));

const filesOf = (recipe: string): readonly string[] =>
  recipes.find(({ name }) => name === recipe)!.blocks.map(({ file }) => file);
const { filesOfRecipe } = (await import(new URL("../../scripts/house/recipes.mjs", import.meta.url).href)) as {
  readonly filesOfRecipe: (page: string, title: string) => readonly string[] | null;
};

test("a property and a sink take four files by hand, a route three and a row, each beside its test", () => {
  const property = filesOf("A stored event property");
  const sink = [...filesOf("A sink"), "migrations/postgres/900_refunds.sql"];
  const route = filesOf("A route of the platform API");
  expect(property).toEqual([
    ...["schemas/event-received.avsc", "processors/admit/event.ts", "migrations/clickhouse/900_payment_method.sql"],
    ...["docs/events.md", "tests/processors/payment-method.test.ts"],
  ]);
  expect(sink).toEqual([
    ...["sinks/refunds/table.ts", "sinks/refunds/rows.ts", "topology.ts", "tests/sinks/refund-rows.test.ts"],
    "migrations/postgres/900_refunds.sql",
  ]);
  expect(route).toEqual([
    ...["apps/api/contract/campaigns/links.ts", "modules/catalog/campaigns/link-reads.ts"],
    ...["apps/api/routes/campaigns/links.ts", "apps/api/routes.yaml", "tests/operations/links-route.test.ts"],
  ]);
  // The steps name no further file, and send to no recipe that does.
  for (const [recipe, files] of [
    ["A stored event property", property],
    ["A sink", sink],
    ["A route of the platform API", route],
  ] as const)
    expect(filesOfRecipe(page, recipe)).toEqual(files.filter((file) => !file.startsWith("tests/")).sort());
});

test("a stage takes its own files, topics.yaml and topology.ts", () =>
  expect(filesOf("A stage and its topic")).toEqual([
    ...["schemas/bonus-earned.avsc", "topics.yaml", "processors/loyalty/loyalty.ts", "topology.ts"],
    "tests/processors/loyalty.test.ts",
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
    expectListed();
    run("node_modules/vitest/vitest.mjs", "run", "--project", "fast", ...ownTests.map(({ file }) => file), ...affected);
  });
});
