// Ends the process at the n-th passing of a named place, as if it had been killed; loaded under
// `node --conditions=faults` only.
import { appendFileSync } from "node:fs";

/**
 * FAILPOINTS="after-produce=3,before-commit=1": the process dies at the third passing of the one or
 * the first of the other.
 */
const armed = new Map(
  (process.env.FAILPOINTS ?? "")
    .split(",")
    .filter((entry) => entry !== "")
    .map((entry) => {
      const [, name, count] = /^([a-z-]+)=([1-9][0-9]*)$/.exec(entry) ?? [];
      if (name === undefined) throw new Error(`FAILPOINTS: "${entry}" is not name=count`);
      return [name, Number(count)] as const;
    }),
);
const passed = new Map<string, number>();

/**
 * Writes each passing to the file FAILPOINT_LOG before anything else, so that a test can prove that
 * its fault has happened.
 */
export const hit = (name: string): void => {
  const count = (passed.get(name) ?? 0) + 1;
  passed.set(name, count);
  const dies = armed.get(name) === count;
  if (process.env.FAILPOINT_LOG !== undefined)
    appendFileSync(process.env.FAILPOINT_LOG, `${process.pid} ${name} ${count}${dies ? " killed" : ""}\n`);
  // SIGKILL: no exit listener, no flush, no goodbye to the group.
  if (dies) process.kill(process.pid, "SIGKILL");
};
