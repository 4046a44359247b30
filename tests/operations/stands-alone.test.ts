// A clone works alone: no tracked file names a path outside of the repository.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";

/** Files of CI may name their machine. */
const tracked = execFileSync("git", ["ls-files"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && !file.startsWith(".ci/"));
/** Each tracked file and folder, and the outputs of builds and installations at the root. */
const entries = new Set(["dist", "node_modules", ".tributary"]);
for (const file of tracked)
  for (let path = file; path !== "." && !entries.has(path); path = dirname(path)) entries.add(path);

/** Keys and file names that tests send because they must be refused. */
const hostile = new Set(["../x", "../../etc", "../sales.csv"]);

/**
 * The paths in a text that leave the repository. A path is fine if its first name after the dots
 * exists in the folder that the dots lead to, or at the root: recipes and benches name paths
 * relative to other files of the repository.
 */
const strayPaths = (file: string, text: string): readonly string[] => {
  const stray: string[] = [];
  let folder = dirname(file);
  for (const line of text.split("\n")) {
    // The block of a recipe names the file that it becomes.
    const fence = /^ *```(?:\w* ?([\w./-]+\/[\w.-]+)?)/.exec(line);
    if (file.endsWith(".md") && fence !== null) folder = dirname(fence[1] ?? file);
    for (const [path, dots, name] of line.matchAll(/(?<![\w./-])((?:\.\.\/)+)([\w@-][\w.@-]*)[\w./@-]*/g)) {
      const first = name!.replace(/\.js$/, ".ts").replace(/[.]$/, "");
      const isHere = entries.has(join(folder, dots!, first)) || entries.has(join(folder, dots!, name!));
      if (!isHere && !entries.has(name!) && !hostile.has(path)) stray.push(path);
    }
  }
  return stray;
};

test("every path of a tracked file stays within the repository", () => {
  const stray = tracked.flatMap((file) => {
    const text = readFileSync(file, "latin1");
    return text.includes("\0") ? [] : strayPaths(file, text).map((path) => `${file}: ${path}`);
  });
  expect(stray).toEqual([]);
});

describe("what is noticed", () => {
  const outside = ["..", "shared", "data", "sales.csv"].join("/");
  test.each([
    ["README.md", `npx tributary send ${outside} --client 1`],
    ["tests/e2e/cdnow.test.ts", `const FILE = "${outside}";`],
    ["docs/api.md", `see [the data](../${outside})`],
    ["scripts/test.mjs", `readFileSync(new URL("${outside}", import.meta.url))`],
  ])("a path of %s beside the repository", (file, text) => expect(strayPaths(file, text)).toHaveLength(1));

  test.each([
    ["tests/e2e/cdnow.test.ts", 'import { until } from "../support/e2e-product.ts";'],
    ["docs/api.md", "[the map](../README.md), [a test](../tests/api)"],
    ["CONTRIBUTING.md", '```ts tests/sinks/rows.test.ts\nimport { shop } from "../support/shop.ts";\n```'],
  ])("and of %s within it not", (file, text) => expect(strayPaths(file, text)).toEqual([]));
});
