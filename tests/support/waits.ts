// Adds up what tests on whole installations wait for, by sentence and over the processes of a run.
// The end of a run shows which session, lease or interval of a test stack costs the most.
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until as plainUntil } from "../../infra/runtime/timing/wait-until.ts";

const MOST = 10;
/** Each process of tests is a child of the process that runs vitest. */
const fileOf = (runner: number): string => join(tmpdir(), `tributary-waits-${runner}.jsonl`);

/** Waits like `until`, and notes how long it took. */
export const until = async <T>(...args: Parameters<typeof plainUntil<T>>): Promise<T> => {
  const began = performance.now();
  try {
    return await plainUntil<T>(...args);
  } finally {
    const sentence = args[0].replaceAll(/\d+/g, "N");
    appendFileSync(fileOf(process.ppid), `${JSON.stringify({ sentence, ms: performance.now() - began })}\n`);
  }
};

/** The longest waits of this run, one line each. Call it once, in the process that runs vitest. */
export const longestWaits = (): readonly string[] => {
  const file = fileOf(process.pid);
  if (!existsSync(file)) return [];
  const sums = new Map<string, { readonly times: number; readonly ms: number }>();
  for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) {
    const { sentence, ms } = JSON.parse(line) as { readonly sentence: string; readonly ms: number };
    const { times, ms: sum } = sums.get(sentence) ?? { times: 0, ms: 0 };
    sums.set(sentence, { times: times + 1, ms: sum + ms });
  }
  rmSync(file);
  return [...sums]
    .sort(([, one], [, other]) => other.ms - one.ms)
    .slice(0, MOST)
    .map(([sentence, { times, ms }]) => `waited ${(ms / 1_000).toFixed(1)} s, ${times} times, until ${sentence}`);
};
