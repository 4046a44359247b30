// Kills the process when it passes a named place for the n-th time. Loaded only under `node
// --conditions=faults`.
import { appendFileSync } from "node:fs";

/**
 * FAILPOINTS="after-produce=3,before-commit=1" kills the process at the third pass of
 * `after-produce` or the first pass of `before-commit`.
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
 * Records each pass in the file FAILPOINT_LOG before it does anything else, so that a test can
 * prove that its fault really happened.
 */
export const hit = (name: string): void => {
  const count = (passed.get(name) ?? 0) + 1;
  passed.set(name, count);
  const dies = armed.get(name) === count;
  if (process.env.FAILPOINT_LOG !== undefined)
    appendFileSync(process.env.FAILPOINT_LOG, `${process.pid} ${name} ${count}${dies ? " killed" : ""}\n`);
  // SIGKILL runs no exit listener and flushes nothing, and the process does not leave its consumer
  // group.
  if (dies) process.kill(process.pid, "SIGKILL");
};
