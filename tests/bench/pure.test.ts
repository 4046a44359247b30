// The gate against slow drift: no pure step costs more than it did, measured as CPU time against JSON.parse of the same event in the same process.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const stored: Readonly<Record<string, number>> = JSON.parse(readFileSync(at("bench/pure.ratios.json"), "utf8"));
/** Two quiet runs differ by 15 %; a busy machine adds more, but not three times in a row to the best of seven passes. */
const FACTOR = 1.3;
/** A seventh of a parse, 0.2 us: of the smallest steps the clock itself is a part. */
const SLACK = 0.15;
const ATTEMPTS = 3;

/** The compiled code, which is what runs: here every import would be a look-up of the test runner's. */
const slowOnes = (): readonly string[] => {
  const node = ["--max-old-space-size=512", "--max-semi-space-size=64"];
  const ratios = JSON.parse(execFileSync(process.execPath, [...node, at("dist/bench/main.js"), "pure", "--json"], { encoding: "utf8" }));
  expect(Object.keys(ratios).sort(), "steps; a new one gets its ratio by: npm run bench -- pure --json").toEqual(
    Object.keys(stored).sort(),
  );
  return Object.entries(stored).flatMap(([step, before]) => {
    const now: number = ratios[step];
    return now > FACTOR * before + SLACK ? `${step}: ${now} times a JSON.parse, was ${before}` : [];
  });
};

test("no pure step has become slower than its stored ratio allows", { timeout: 180_000 }, () => {
  expect(existsSync(at("dist/bench/main.js")), "compile first: npm run build").toBe(true);
  let slow: readonly string[] = [];
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    slow = slowOnes();
    if (slow.length === 0) return;
  }
  expect(slow, "if this is the price of something, say so in the commit that changes bench/pure.ratios.json").toEqual([]);
});
