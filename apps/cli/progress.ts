// Shows the progress of long work on stderr: a bar on a terminal, otherwise a line every 10 s.

import { visible, visibleLine } from "../../infra/runtime/output.ts";
import type { Progress } from "../../modules/money/reprocess/log/stretches.ts";
import { spanOf } from "./moments.ts";

const WIDTH = 30;
const QUIET_MS = 10_000;

/** `unit` names what is counted, e.g. rows. With `isQuiet` only notes are shown. */
export const openProgress = (unit: string, isQuiet = false): Progress => {
  const isTerminal = process.stderr.isTTY === true && !isQuiet;
  const started = performance.now();
  let lastLine = started;
  return {
    at: (done, total) => {
      const rate = Math.round(done / Math.max((performance.now() - started) / 1_000, 0.001));
      const left = rate > 0 && done < total ? `, about ${spanOf((total - done) / rate)} left` : "";
      const text = `${done} of ${total} ${unit}, ${rate}/s${left}`;
      if (isTerminal) {
        const filled = Math.round((WIDTH * done) / Math.max(total, 1));
        process.stderr.write(`\r[${"#".repeat(filled)}${".".repeat(WIDTH - filled)}] ${visibleLine(text)}\x1b[K`);
      } else if (!isQuiet && performance.now() - lastLine > QUIET_MS) {
        lastLine = performance.now();
        process.stderr.write(`${visible(text)}\n`);
      }
    },
    note: (text) => process.stderr.write(`${isTerminal ? "\r\x1b[K" : ""}${visible(text)}\n`),
    done: () => {
      if (isTerminal) process.stderr.write("\n");
    },
  };
};
