// Holds pure steps against slow drift: none costs more CPU than before, as a multiple of JSON.parse
// of the same event in the same process.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const stored: Readonly<Record<string, number>> = JSON.parse(readFileSync(at("bench/pure.ratios.json"), "utf8"));
/** Two quiet runs differ by 15 %; a busy machine adds more. */
const FACTOR = 1.3;
/** A seventh of a parse, 0.2 us: for the smallest steps the clock itself costs that much. */
const SLACK = 0.15;
/**
 * In some processes V8 compiles one or two of the cheapest steps at twice their usual cost, each
 * time others (one run in four on a quiet machine). So a step must be slow in every attempt.
 */
const ATTEMPTS = 5;

/**
 * The slow steps, measured in a separate process. It runs the compiled code, because the test
 * runner would turn every import into a look-up.
 */
const slowSteps = (): ReadonlyMap<string, string> => {
  const node = ["--max-old-space-size=512", "--max-semi-space-size=64"];
  const ratios = JSON.parse(
    execFileSync(process.execPath, [...node, at("dist/bench/main.js"), "pure", "--json"], { encoding: "utf8" }),
  );
  expect(Object.keys(ratios).sort(), "steps; a new one gets its ratio by: npm run bench -- pure --json").toEqual(
    Object.keys(stored).sort(),
  );
  return new Map(
    Object.entries(stored).flatMap(([step, before]) => {
      const now: number = ratios[step];
      return now > FACTOR * before + SLACK ? [[step, `${step}: ${now} times a JSON.parse, was ${before}`]] : [];
    }),
  );
};

test("no pure step has become slower than its stored ratio allows", { timeout: 300_000 }, () => {
  expect(existsSync(at("dist/bench/main.js")), "compile first: npm run build").toBe(true);
  let slow = slowSteps();
  for (let attempt = 1; attempt < ATTEMPTS && slow.size > 0; attempt += 1) {
    const again = slowSteps();
    slow = new Map([...again].filter(([step]) => slow.has(step)));
  }
  expect(
    [...slow.values()],
    "if this is the price of something, say so in the commit that changes bench/pure.ratios.json",
  ).toEqual([]);
});
