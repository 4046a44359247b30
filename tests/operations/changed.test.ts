// What `npm run test:changed` runs: the reach of a test file, on small sources and on ours, and
// what a run records.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandFiles } from "../../apps/cli/commands.ts";
import { apps } from "../../modules/running/installation/product.ts";

interface Reach {
  readonly files: readonly string[];
  readonly unknown: readonly string[];
}
type Tree = ReadonlyMap<string, string>;
const part = async <T>(name: string): Promise<T> =>
  (await import(new URL(`../../scripts/test/${name}.mjs`, import.meta.url).href)) as T;
const { reaches } = await part<{ readonly reaches: (tree: Tree) => (roots: readonly string[]) => Reach }>("reach");
const { appsIn, commandsIn } = await part<{
  readonly appsIn: (tree: Tree) => readonly string[];
  readonly commandsIn: (tree: Tree) => readonly { readonly file: string; readonly names: readonly string[] }[];
}>("product");
const { workingReach } = await part<{
  readonly workingReach: () => { readonly tree: Tree; readonly reach: (roots: readonly string[]) => Reach };
}>("sources");

describe("the reach of a test file", () => {
  /** What a test file of this text reaches in a tree of it and of some other files. */
  const reachOf = (text: string, more: Readonly<Record<string, string>> = {}): Reach =>
    reaches(new Map(Object.entries({ "tests/a.test.ts": text, ...more })))(["tests/a.test.ts"]);

  test("has imports of values to their end, literal ones that come later, and no types", () => {
    const { files } = reachOf('import { b } from "../domain/b.ts";\nimport type { T } from "../domain/t.ts";', {
      "domain/b.ts": 'export const later = () => import("./c.ts");',
      "domain/c.ts": "",
      "domain/t.ts": "",
      "domain/other.ts": "",
    });
    expect(files).toEqual(["domain/b.ts", "domain/c.ts", "tests/a.test.ts"]);
  });

  test("has pages and folders that it names, and does not run what is in them", () => {
    const text = `import { readdirSync, readFileSync } from "node:fs";
      readFileSync("docs/a.md"); readdirSync(join(root, "ops")); readFileSync(new URL("data.csv", import.meta.url));`;
    const { files } = reachOf(text, {
      "docs/a.md": "",
      "docs/b.md": "",
      "ops/run.ts": 'import "./more.mjs";',
      "ops/more.mjs": "",
      "tests/data.csv": "",
      "domain/b.ts": "",
    });
    expect(files).toEqual(["docs/a.md", "ops/more.mjs", "ops/run.ts", "tests/a.test.ts", "tests/data.csv"]);
  });

  test("has the sources of a process that it starts, and the script that browsers get", () => {
    const text = "spawn(process.execPath, [`$".concat("{root}/dist/apps/pixel/main.js`]);");
    const { files } = reachOf(text, {
      "apps/pixel/main.ts": 'import { readFileSync } from "node:fs";\nreadFileSync(join("dist/pixel", "r.js"));',
      "apps/api/main.ts": "",
      "browser/script.ts": "",
      "scripts/pixel.mjs": "",
    });
    expect(files).toEqual(["apps/pixel/main.ts", "browser/script.ts", "scripts/pixel.mjs", "tests/a.test.ts"]);
  });

  describe("with apps of the product", () => {
    const product = "modules/running/installation/product.ts";
    const parts = {
      [product]: `export const apps = [{ name: "ingest", module: "apps/ingest/main.js" },
        { name: "api", module: "apps/api/main.js" }];`,
      "apps/ingest/main.ts": "",
      "apps/api/main.ts": "",
    };
    const startedBy = (text: string, more: Readonly<Record<string, string>> = {}): readonly string[] =>
      reachOf(text, { ...parts, ...more }).files.filter((file) => file.startsWith("apps/"));
    const all = ["apps/api/main.ts", "apps/ingest/main.ts"];
    const importing = (path: string): string => `import { apps } from "../${path}";`;
    test.each([
      [importing(product), all],
      ["startProduct();", all],
      ['armed("dist/apps/api/main.js");', ["apps/api/main.ts"]],
      ["", []],
    ])("%s starts %j", (text, expected) => expect(startedBy(text)).toEqual(expected));
    test("starts all that a helper of tests starts, and none that the product itself lists", () => {
      const helper = { "tests/support/start.ts": `import { apps } from "../../${product}";` };
      expect(startedBy('import { start } from "./support/start.ts";', helper)).toEqual(all);
      const command = { "domain/doctor.ts": importing(product) };
      expect(startedBy('import { doctor } from "../domain/doctor.ts";', command)).toEqual([]);
    });
  });

  test("has all handlers of the platform API where it starts it", () => {
    const { files } = reachOf('spawned(["dist/apps/api/main.js"]);', {
      "apps/api/main.ts": 'import { routes } from "./routes.ts";',
      "apps/api/routes.ts":
        'import { readdirSync } from "node:fs";\nawait import(new URL("./routes/", import.meta.url));',
      "apps/api/routes/jobs.ts": 'import { rows } from "./rows/jobs.ts";',
      "apps/api/routes/sales.ts": "",
      "apps/api/routes/rows/jobs.ts": "",
    });
    expect(files).toEqual(
      expect.arrayContaining(["apps/api/routes/rows/jobs.ts", "apps/api/routes/jobs.ts", "apps/api/routes/sales.ts"]),
    );
  });

  describe("with the command line", () => {
    const parts = {
      "apps/cli/main.ts": 'import { commandFiles } from "./commands.ts";',
      "apps/cli/commands.ts": `export const commandFiles = [
        { load: async () => (await import("./commands/explain.ts")).explain, commands: { explain: known("") } },
        { load: async () => (await import("./commands/dlq.ts")).dlq, commands: { dlq: known("") } },
        { load: async () => (await import("./commands/chaos.ts")).chaos, commands: { chaos: known("") } }];`,
      "apps/cli/commands/explain.ts": "",
      "apps/cli/commands/dlq.ts": "",
      "apps/cli/commands/chaos.ts": 'start("tools/chaos/main.js");',
      "tools/chaos/main.ts": 'tell("tributary dlq");',
      "docs/a.md": "",
    };
    const commandsOf = (text: string): readonly string[] =>
      reachOf(`spawned(["dist/apps/cli/main.js", ...args]);${text}`, parts).files.filter((file) =>
        file.startsWith("apps/cli/commands/"),
      );
    const all = ["apps/cli/commands/chaos.ts", "apps/cli/commands/dlq.ts", "apps/cli/commands/explain.ts"];
    test.each([
      ["", []],
      ['product.tributary("explain", id);', ["apps/cli/commands/explain.ts"]],
      ['import { commandFiles } from "../apps/cli/commands.ts";', all],
      ['readFileSync("docs/a.md");', all],
      ['run("chaos");', ["apps/cli/commands/chaos.ts", "apps/cli/commands/dlq.ts"]],
    ])("%s types %j", (text, expected) => expect(commandsOf(text)).toEqual(expected));
  });

  test("has what a comment says", () =>
    expect(reachOf("// Reaches docs/: its pages are links.", { "docs/a.md": "" }).files).toContain("docs/a.md"));

  test.each([
    ["asks git", 'execFileSync("git", ["ls-files", "docs"]);'],
    ["computes paths from the root", "const at = (path) => new URL(`../$".concat("{path}`, import.meta.url);")],
    ["imports a path that it computes", "await import(path);"],
    ["compiles", 'spawnSync(process.execPath, ["node_modules/typescript/bin/tsc"]);'],
    ["cannot be parsed", "const a = ;"],
  ])("is unknown when the file %s", (_, text) => expect(reachOf(text).unknown).toHaveLength(1));
});

describe("in this repository", () => {
  const { tree, reach } = workingReach();
  const tests = [...tree.keys()]
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => ({ file, files: new Set(reach([file]).files) }));
  const reachedBy = (source: string): readonly string[] =>
    tests.flatMap(({ file, files }) => (files.has(source) ? [file] : []));

  test("a processor reaches its unit test and the whole product", () => {
    const reached = reachedBy("processors/score/rules/visitor.ts");
    expect(reached).toEqual(
      expect.arrayContaining(["tests/processors/score.test.ts", "tests/guarantees/rewind.test.ts"]),
    );
    expect(reached).not.toContain("tests/processors/commission.test.ts");
    expect(reach(["tests/support/start-product.ts"]).files).toContain("processors/score/rules/visitor.ts");
  });

  test("a handler of the platform API reaches its tests, and none of processors and workers", () => {
    const reached = reachedBy("apps/api/routes/partners/partners.ts");
    expect(reached).toContain("tests/api/partners.test.ts");
    expect(reached.filter((file) => /^tests\/(processors|worker|stream|sinks)\//.test(file))).toEqual([]);
    expect(reached).not.toContain("tests/guarantees/decided-once.test.ts");
  });

  test("a page reaches the tests that read it", () => {
    expect(reachedBy("docs/fraud.md")).toContain("tests/processors/fraud-guide.test.ts");
    expect(reachedBy("docs/fraud.md")).not.toContain("tests/processors/score.test.ts");
  });

  test("a test file reaches itself, and those that read all tests", () => {
    const [own, ...others] = ["tests/processors/score.test.ts", "tests/processors/commission.test.ts"];
    expect(reachedBy(own!)).toContain(own);
    expect(reachedBy(own!)).not.toContain(others[0]);
  });

  test("a migration reaches what starts servers", () =>
    expect(reach(["tests/support/start-stack.ts"]).files).toContain("migrations/postgres/001_reference.sql"));

  test("apps are found, and commands by their names", () => {
    expect(appsIn(tree)).toEqual(apps.map(({ module }) => module.replace(/\.js$/, ".ts")));
    expect(commandsIn(tree).map(({ names }) => names)).toEqual(
      commandFiles.map(({ commands }) => Object.keys(commands)),
    );
    expect(commandsIn(tree).filter(({ file }) => !tree.has(file))).toEqual([]);
  });
});

describe("a run", () => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-changed-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const write = (files: Readonly<Record<string, string>>): void => {
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
  };
  const node = (...args: string[]) =>
    spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8", env: { ...process.env, FORCE_COLOR: "0" } });
  const runTests = (...more: string[]) => node("node_modules/vitest/vitest.mjs", "run", ...more);
  /** Each file that would run, with the reason. */
  const chosen = (): Readonly<Record<string, string>> => {
    const { stdout, stderr } = node("scripts/test.mjs", "--changed", "--dry");
    expect(stderr).toBe("");
    return Object.fromEntries(
      [...stdout.matchAll(/^ +\S+ s {2}fast +(\S+): (.*)$/gm)].map(([, file, reason]) => [file, reason]),
    );
  };
  const one = (claim: string, more = ""): string =>
    `import { expect, test } from "vitest";\n${more}\ntest("one", () => expect(${claim}).toBe(1));\n`;
  const withSource = 'import { one } from "../domain/one.ts";';
  const files = {
    ".gitignore": "node_modules\n.tributary\ndist\n",
    "package.json": '{ "type": "module" }',
    "vitest.config.ts": `export default { test: { reporters: ["./tests/support/count-reporter.ts"],
      projects: [{ extends: true, test: { name: "fast", include: ["tests/*.test.ts"] } }] } };`,
    "domain/one.ts": "export const one = 1;\n",
    "tests/passes.test.ts": one("one", withSource),
    "tests/alone.test.ts": one("1"),
    "tests/fails.test.ts": one("2"),
    // This file is only text here: a run of it has a skipped test, so it must not count as passed.
    "tests/skips.test.ts": `${one("1")}test.skip("two", () => undefined);\n`,
    "tests/unknown.test.ts": one("1", 'await import(["node", "fs"].join(":"));'),
  };
  beforeAll(() => {
    write(files);
    for (const path of ["scripts", "tests/support", "infra/runtime/timing"])
      cpSync(path, join(folder, path), { recursive: true });
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    execFileSync("git", ["init", "-q"], { cwd: folder });
  });

  test("leaves out what passed, until something that it reaches changes; the rest is run again", () => {
    const without = {
      "tests/fails.test.ts": "it failed with these contents",
      "tests/skips.test.ts": "no pass of it is recorded",
      "tests/unknown.test.ts": expect.stringMatching(/^its reach is unknown: /),
    };
    expect(Object.keys(chosen()).sort()).toEqual(
      Object.keys(files)
        .filter((file) => file.endsWith(".test.ts"))
        .sort(),
    );
    expect(runTests().stdout).toMatch(/^4 passed, 1 failed, 1 skipped$/m);
    expect(chosen()["tests/alone.test.ts"], "dist/ is older than the sources").toBe("no pass of it is recorded");
    write({ "dist/.compiled": String(Number.MAX_SAFE_INTEGER) });
    runTests();
    expect(chosen()).toEqual(without);

    write({ "domain/one.ts": "export const one = 2 - 1;\n", "tests/alone.test.ts": one("2 - 1") });
    expect(chosen()).toEqual({
      ...without,
      "tests/passes.test.ts": "reaches domain/one.ts",
      "tests/alone.test.ts": "reaches tests/alone.test.ts",
    });

    write({ "domain/one.ts": files["domain/one.ts"] });
    runTests("-t", "no such test");
    expect(chosen()).toEqual({ ...without, "tests/alone.test.ts": "reaches tests/alone.test.ts" });
    runTests("tests/alone.test.ts");
    expect(chosen()).toEqual(without);
  }, 120_000);

  test("refuses a path, and says how to run it", () => {
    const { status, stdout, stderr } = node("scripts/test.mjs", "--changed", "tests/alone.test.ts");
    expect([status, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/takes no other argument: tests\/alone.test.ts.* npm test -- tests\/alone.test.ts$/m);
  });
});
