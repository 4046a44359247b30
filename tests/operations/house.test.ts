// The counts of `npm run house`, on small sources.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

type Tree = ReadonlyMap<string, string>;
type Sized = readonly { readonly file: string; readonly name: string; readonly lines: number }[];
const part = async <T>(name: string): Promise<T> =>
  (await import(new URL(`../../scripts/house/${name}.mjs`, import.meta.url).href)) as T;

const { productFiles, treeOf, workingTree } = await part<{
  readonly productFiles: (tree: Tree) => readonly string[];
  readonly treeOf: (commit: string) => Tree;
  readonly workingTree: () => Tree;
}>("sources");
const { areaArrows, arrowsUp, circlesIn, loadedBy } = await part<{
  readonly areaArrows: (tree: Tree, files: readonly string[]) => readonly string[];
  readonly arrowsUp: (arrows: readonly string[], areas: readonly string[]) => readonly string[] | null;
  readonly circlesIn: (tree: Tree, files: readonly string[]) => readonly (readonly string[])[];
  readonly loadedBy: (tree: Tree, roots: readonly string[]) => readonly string[];
}>("imports");
const { longFunctions, routeHandlers } = await part<{
  readonly longFunctions: (tree: Tree, files: readonly string[], most: number) => Sized;
  readonly routeHandlers: (tree: Tree, files: readonly string[]) => Sized;
}>("functions");
const { decidedByTwoModules, decidedTwice } =
  await part<
    Record<
      "decidedByTwoModules" | "decidedTwice",
      (tree: Tree, files: readonly string[]) => readonly { readonly code: string; readonly places: readonly string[] }[]
    >
  >("refusals");
const { bareFiles, bareTypes } = await part<{
  readonly bareFiles: (files: readonly string[]) => readonly string[];
  readonly bareTypes: (tree: Tree, files: readonly string[]) => readonly { readonly name: string }[];
}>("words");
const { filesOfRecipe } = await part<{
  readonly filesOfRecipe: (page: string, title: string) => readonly string[] | null;
}>("recipes");
const { walkedByPurchase } = await part<{ readonly walkedByPurchase: (tree: Tree) => readonly string[] | Error }>(
  "purchase",
);
const { isLong } = await part<{ readonly isLong: (subject: string) => boolean }>("subjects");

const treeWith = (files: Readonly<Record<string, string>>): Tree => new Map(Object.entries(files));

describe("imports", () => {
  const tree = treeWith({
    "domain/a.ts": 'import { b } from "./b.ts";\nexport const a = () => b;',
    "domain/b.ts": 'import type { C } from "./c.ts";\nexport const b: C = 1;',
    "domain/c.ts": 'export type C = number;\nexport type { D } from "./d.ts";',
    "domain/d.ts": 'import { a } from "./a.ts";\nimport "node:fs";\nexport type D = ReturnType<typeof a>;',
    "domain/e.ts": 'import { a } from "./a.ts";\nexport const later = () => import("./f.ts");\nexport default a;',
    "domain/f.ts": 'import later from "./e.ts";\nexport default later; // import "./a.ts"',
  });

  test("a circle counts imports of types, and none that come later", () =>
    expect(circlesIn(tree, productFiles(tree))).toEqual([
      ["domain/a.ts", "domain/b.ts", "domain/c.ts", "domain/d.ts"],
    ]));
  test("a start loads what values need, and no types", () =>
    expect(loadedBy(tree, ["domain/f.ts"])).toEqual(["domain/a.ts", "domain/b.ts", "domain/e.ts", "domain/f.ts"]));

  test("areas that import a later one are named, where the areas are ours", () => {
    /** An import of a file of another area. */
    const from = (path: string): string => `import "../${path}";\n`;
    const areas = treeWith({
      "modules/base/x.ts": `${from("money/y.ts")}import { z } from "../../domain/z.ts";`,
      "modules/base/w.ts": from("money/y.ts"),
      "modules/money/y.ts": `${from("log/q.ts")}import { r } from "./r.ts";`,
      "modules/money/r.ts": "export const r = 1;",
      "modules/log/q.ts": "export const q = 1;",
      "domain/z.ts": "export const z = 1;",
    });
    const arrows = areaArrows(areas, productFiles(areas));
    expect(arrows).toEqual(["base > money", "money > log"]);
    expect(arrowsUp(arrows, ["base", "log", "money"])).toEqual(["base > money"]);
    expect(arrowsUp(arrows, ["base", "log", "money", "moves"])).toBeNull();
  });
});

describe("functions", () => {
  const body = (lines: number): string => "  work();\n".repeat(lines - 2);
  const tree = treeWith({
    "apps/api/routes/a.ts": `const named = async () => {\n${body(20)}};
export const routes = () => [
  route(contracts.short, ({ list }) => list("route(x, () => {")),
  route(contracts.long, ({ write }) =>
    write(async () => {
${body(9)}    }),
  ),
  route(byName, named),
  other(contracts.none, () => {\n${body(60)}}),
];
class Shop {
  open() {\n${body(51)}}
}`,
  });
  const files = productFiles(tree);

  test("a handler is as long as the function that its route is given", () =>
    expect(routeHandlers(tree, files).map(({ name, lines }) => [name, lines])).toEqual([
      ["byName", 20],
      ["long", 10],
      ["short", 1],
    ]));
  test("long functions come with their names, longest first", () =>
    expect(longFunctions(tree, files, 50).map(({ name, lines }) => [name, lines])).toEqual([
      ["routes", 75],
      ["(no name)", 60],
      ["open", 51],
    ]));
});

describe("refusals", () => {
  const tree = treeWith({
    "apps/api/routes/a.ts": `
      if (x) throw conflict("client_archived", "it is archived");
      const code = "month_approved";
      throw new Problem("conflict", "gone", { code: isOld ? "too_old" : "too_new" });
      if (error.code === "only_compared") throw fault("/a", "bad_amount", "no amount");`,
    "apps/api/contract/a.ts": 'export const a = { conflicts: ["in_a_list"], code: "of_a_contract" };',
    "apps/pixel/a.ts": 'throw conflict("of_another_door", "no");',
    "modules/catalog/a.ts": `
      type Why = "too_old" | "only_typed";
      throw conflict("client_archived", "archived");
      export const why = (n: number) => (n > 1 ? "month_approved" : undefined);
      refuse("partner_id", "there is none");`,
    "modules/money/b.ts": `
      const whyNot = () => { return "month_approved" as const; };
      const list = [{ code: "too_new" }, { code: "of_a_contract" }, { code: "of_another_door" }];
      // conflict("only_compared", "in a comment")
      const row = { code: "conflict" };`,
  });
  const files = productFiles(tree);

  test("a code is decided twice where the API and a module write it, not where they list or compare it", () =>
    expect(decidedTwice(tree, files).map(({ code }) => code)).toEqual([
      "client_archived",
      "month_approved",
      "too_new",
    ]));
  test("and by two modules where two files write it", () =>
    expect(decidedByTwoModules(tree, files)).toEqual([
      { code: "month_approved", places: ["modules/catalog/a.ts", "modules/money/b.ts"] },
    ]));
});

describe("words", () => {
  test("types whose whole name is a participle or a preposition, and no others", () => {
    const tree = treeWith({
      "modules/a/x.ts": `
        interface Asked {} type Known = 1; interface Waiting {} type Of = 1; interface Created {}
        interface KnownClient {} type Feed = 1; type Opening = 1; type Match = 1; const Given = 1; class Kept {}
        // interface Shown {}
        const text = "type Seen = 1";`,
      "stream/flow.ts": "export interface Recorded {}",
    });
    expect(bareTypes(tree, productFiles(tree)).map(({ name }) => name)).toEqual([
      "Asked",
      "Known",
      "Waiting",
      "Of",
      "Created",
    ]);
  });
  test("files likewise", () =>
    expect(bareFiles(["a/asked.ts", "a/way.ts", "a/until.ts", "a/kept-click.ts", "a/seed.ts", "a/sale.ts"])).toEqual([
      "a/asked.ts",
      "a/way.ts",
      "a/until.ts",
    ]));
});

test("a recipe touches what its blocks, its steps and the recipes in it name; its test and notes are free", () => {
  const page = `# Recipes
### A sink
1. Write it.
\`\`\`ts sinks/a/table.ts
### not a heading
\`\`\`
2. See [A migration](#a-migration). Add it to \`topology.ts\` and \`docker-compose.yml\`; \`npm run describe\`.
   \`/openapi.json\` has it by itself.
\`\`\`diff topology.ts
+ line
\`\`\`
\`\`\`ts tests/sinks/a.test.ts
\`\`\`
> One of another store is declared in \`sinks/c/table.ts\`.
### A migration
\`\`\`sql migrations/900_a.sql
\`\`\`
### Another
\`\`\`ts sinks/b/table.ts
\`\`\`
`;
  expect(filesOfRecipe(page, "A sink")).toEqual([
    "docker-compose.yml",
    "migrations/900_a.sql",
    "sinks/a/table.ts",
    "topology.ts",
  ]);
  expect(filesOfRecipe(page, "A stage")).toBeNull();
});

test("a subject of 72 columns is short enough", () => {
  expect([isLong("x".repeat(72)), isLong("x".repeat(73)), isLong("é".repeat(72))]).toEqual([false, true, false]);
});

describe("the repository", () => {
  test("a purchase walks the stages that it needs, and no other door", () => {
    const walked = walkedByPurchase(workingTree());
    expect(walked).toEqual(expect.arrayContaining(["processors/settle/settle.ts", "sinks/ledger/rows.ts"]));
    expect(walked).not.toContain("processors/admit/pixel.ts");
  });
  test("without the shop in memory there is no purchase", () =>
    expect(walkedByPurchase(treeWith({}))).toEqual(new Error("there is no tests/support/shop.ts")));

  test("a commit is measured as its files were, whatever lies in the folder now", () => {
    const commit = treeOf("HEAD");
    expect(commit.get("topology.ts")).toBe(execFileSync("git", ["show", "HEAD:topology.ts"], { encoding: "utf8" }));
  });
});

describe("the command", () => {
  const house = (cwd: string, ...args: string[]) =>
    spawnSync(process.execPath, ["scripts/house.mjs", ...args], { cwd, encoding: "utf8" });
  const folder = mkdtempSync(join(tmpdir(), "tributary-house-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const git = (...args: string[]): string =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], {
      cwd: folder,
      encoding: "utf8",
    });

  test("prints a commit beside the working tree, also where the first commit of the rule is not there", () => {
    cpSync("scripts", join(folder, "scripts"), { recursive: true });
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    writeFileSync(join(folder, ".gitignore"), "node_modules\n");
    writeFileSync(join(folder, "topology.ts"), "export interface Asked {}\n");
    git("init", "-q");
    git("add", ".");
    git("commit", "-q", "-m", `One type ${"x".repeat(80)}`);
    const first = git("rev-parse", "--short=8", "HEAD").trim();
    writeFileSync(join(folder, "topology.ts"), "export interface Asked {}\nexport interface Given {}\n");
    const { stdout, stderr, status } = house(folder, "--against", first);
    expect({ stderr, status }).toEqual({ stderr: "", status: 0 });
    expect(stdout).toMatch(new RegExp(`^measure +${first} +now +aim$`, "m"));
    expect(stdout).toMatch(/^types named by a participle or preposition +1 +2 +0$/m);
    expect(stdout).toMatch(
      /^commit subjects above 72 columns +(the first commit of the rule is not in this clone *){2}/m,
    );
    const [before] = Object.values(JSON.parse(house(folder, "--json", "--at", "HEAD").stdout)) as [
      { name: string; items: string[] }[],
    ];
    expect(before.find(({ name }) => name.startsWith("types"))?.items).toEqual(["Asked topology.ts"]);
  });
  test("says that a commit is not there", () => {
    const { status, stderr } = house(folder, "--at", "none");
    expect({ status, stderr }).toEqual({ status: 1, stderr: "there is no commit none in this clone\n" });
  });
});
