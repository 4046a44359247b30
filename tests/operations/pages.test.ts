// Links in pages lead somewhere, paths in prose exist, and comments cite existing pages, headings
// and laws.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && existsSync(file));
const pages = tracked.filter((file) => file.endsWith(".md"));
const textOf = (file: string): string => readFileSync(file, "utf8");

const paths = new Set(tracked.flatMap((file) => file.split("/").map((_, n, parts) => parts.slice(0, n + 1).join("/"))));
/** `*` stands for anything and `{a,b}` for each. */
const exists = (path: string): boolean => {
  const bare = path.replace(/\/$/, "");
  if (paths.has(bare)) return true;
  if (!/[*{]/.test(bare)) return false;
  const pattern = bare
    .replaceAll(/[.]/g, "[.]")
    .replaceAll("*", "[^/]*")
    .replaceAll(/\{([^}]*)\}/g, (_, list: string) => `(${list.replaceAll(",", "|")})`);
  return [...paths].some((known) => new RegExp(`^${pattern}$`).test(known));
};

/** A page without its code blocks. */
const proseIn = (page: string): string => textOf(page).replaceAll(/```[\s\S]*?```/g, "");
/** The anchor that GitHub makes for a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(" ", "-");
const headingsOf = (page: string): readonly string[] =>
  [...proseIn(page).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading!);

describe.each(pages)("%s", (page) => {
  test("links to files and headings that exist", () => {
    const links = [...textOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    const broken = links
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => {
        const [path = "", anchor] = target.split("#");
        const file = path === "" ? page : normalize(join(dirname(page), path));
        if (!existsSync(file)) return true;
        return anchor !== undefined && !headingsOf(file).map(anchorOf).includes(anchor);
      });
    expect(broken).toEqual([]);
  });

  test("names paths that exist", () => {
    const root =
      /^(apps|bench|docs|domain|infra|migrations|modules|ops|processors|schemas|scripts|sinks|stream|tests)\//;
    const named = [
      ...textOf(page)
        .replaceAll(/```[\s\S]*?```/g, "")
        .matchAll(/`([^`\s]+)`|(?<=\| |; |, )([\w./-]+\.test\.ts)/g),
    ]
      .map(([, quoted, bare]) => (quoted ?? bare!).replace(/[:#].*$/, ""))
      .filter((path) => root.test(path) && !/[<>$]/.test(path));
    expect(named.filter((path) => !exists(path))).toEqual([]);
  });
});

describe("comments", () => {
  const sources = tracked.filter((file) => /\.(ts|mjs|sql|ya?ml)$/.test(file));
  /** The comments of a file as running text, because a citation may continue on the next line. */
  const proseOf = (file: string): string =>
    textOf(file)
      .split("\n")
      .flatMap((line) => /^\s*(?:\/\*\*|\/\/|\*|--|#) ?(.*)$/.exec(line)?.[1] ?? [])
      .join(" ");
  const cited = sources.flatMap((file) =>
    [...proseOf(file).matchAll(/([\w./-]*\w\.md)(?:, "([^"]+)"|,? ([A-Z]\d{1,2})\b)?/g)].map(
      ([, page, heading, id]) => ({
        file,
        page: page!,
        heading,
        id,
      }),
    ),
  );

  test("cite pages that are in the repository", () =>
    expect(cited.filter(({ page }) => !exists(page)).map(({ file, page }) => `${file}: ${page}`)).toEqual([]));

  test("cite headings that the page has", () => {
    const wrong = cited.filter(
      ({ page, heading }) => heading !== undefined && existsSync(page) && !headingsOf(page).includes(heading),
    );
    expect(wrong.map(({ file, page, heading }) => `${file}: ${page}, "${heading}"`)).toEqual([]);
  });

  test("cite laws and facts that the page lists", () => {
    const wrong = cited.filter(
      ({ page, id }) => id !== undefined && existsSync(page) && !new RegExp(`\\b${id}\\b`).test(textOf(page)),
    );
    expect(wrong.map(({ file, page, id }) => `${file}: ${page} ${id}`)).toEqual([]);
  });
});

test("the code on the first screen of README.md is that of the guide, which runs it", () => {
  const shown = /```ts\n([\s\S]*?)```/.exec(textOf("README.md"))?.[1];
  expect(textOf("tests/guide/02-processor.test.ts")).toContain(shown);
});

test("the map of README.md names every folder of the repository", () => {
  const folders = [...paths].filter((path) => !path.includes("/") && !path.startsWith(".") && !path.includes("."));
  const map = /^## Map$([\s\S]*?)^## /m.exec(textOf("README.md"))?.[1] ?? "";
  expect(folders.filter((folder) => !/^[A-Z]/.test(folder)).filter((folder) => !map.includes(`[${folder}/]`))).toEqual(
    [],
  );
});

test("the figures of README.md are those of docs/performance.md, and their ratios are right", () => {
  const table = /^## Figures$([\s\S]*?)^## /m.exec(textOf("README.md"))![1]!;
  const rows = [...table.matchAll(/^\| .* \| ([\d.,]+) .* \| \*\*([\d.]+)\*\* \D*([\d.,]+)/gm)].map(
    ([, figure, ratio, base]) => ({ figure: figure!, ratio: Number(ratio), base: base! }),
  );
  expect(rows.length).toBe([...table.matchAll(/^\| [a-z]/gm)].length - 1);
  const known = new Set(
    textOf("docs/performance.md")
      .match(/\d[\d.,]*/g)!
      .map((text) => text.replace(/[.,]$/, "")),
  );
  const numberOf = (text: string) => Number(text.replaceAll(",", ""));
  for (const { figure, ratio, base } of rows) {
    expect(known).toContain(figure);
    expect(known).toContain(base);
    expect(Math.abs(numberOf(figure) / numberOf(base) - ratio)).toBeLessThan(ratio > 1 ? 0.051 : 0.0051);
  }
});
