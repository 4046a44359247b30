// Planted bugs keep up with the code: each still has its place in the sources, and the test that
// must catch it still has its name. `npm run test:planted` takes hours, this takes milliseconds.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { bugs } from "./bugs.ts";

const textOf = (file: string): string => {
  const path = join(repositoryRoot(), file);
  return existsSync(path) ? readFileSync(path, "utf8") : "";
};
/** The titles of `test`, `describe` and their `.each`; the parts of a long title are joined. */
const titlesOf = (file: string): readonly string[] =>
  [
    ...textOf(file)
      .replace(/"\s*\+\s*"/g, "")
      .matchAll(/(?:\b(?:test|describe)|\))\(\s*"((?:[^"\\]|\\.)*)",/g),
  ].map(([, title]) => title!);

const planted = bugs.filter(({ waitsFor }) => waitsFor === undefined);
const byTest = planted.flatMap(({ test: catching, ...bug }) => (catching ? [{ ...bug, ...catching }] : []));

describe("a planted bug", () => {
  test.each(planted)("$number has its place in the sources: $says", ({ edits = [] }) => {
    expect(edits).not.toEqual([]);
    for (const { file, find } of edits) expect(textOf(file), file).toContain(find);
  });
  test.each(planted)("$number is looked for by a test or by cycles: $says", ({ test: catching, cycles }) => {
    expect(catching ?? cycles).toBeDefined();
  });
  test.each(byTest)("$number is caught by a test of that name: $named", ({ files, named }) => {
    expect(files.flatMap(titlesOf).filter((title) => title.includes(named))).not.toEqual([]);
  });
});
