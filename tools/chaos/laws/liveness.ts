// L: after the last heal everything is read in time, nothing grows without bound, and a dead store
// is reported.
import { elsewhere, foundBy, kept, type Law, open, unless } from "./law.ts";

/** docs/design/laws.md L1. */
const QUIET_WITHIN_MS = 60_000;
/** The most memory of a process (modules/running/installation/product.ts). */
const MOST_MEMORY_MB = 700;

export const liveness: readonly Law[] = [
  {
    id: "L1",
    says: "every lag is 0 and every rollup computed within 60 s of the last heal",
    check: ({ quietMs, watched }) =>
      quietMs <= QUIET_WITHIN_MS
        ? kept(
            `after ${(quietMs / 1_000).toFixed(1)} s; longest wait of a group with lag ` +
              `${(watched.longestStallMs / 1_000).toFixed(0)} s, faults included`,
          )
        : unless([`it took ${(quietMs / 1_000).toFixed(1)} s`], ""),
  },
  elsewhere(
    "L2",
    "health is not ok within 3 probes of a dead store, and ok again after it; one alert, one recovery",
    "tests/keeper",
  ),
  {
    id: "L3",
    says: "buffers are bounded: no process of the product takes more than 700 MiB",
    check: ({ watched }) => {
      const all = Object.entries(watched.memoryMb);
      if (all.length === 0) return open("no process could be looked at");
      return unless(
        all.filter(([, mb]) => mb > MOST_MEMORY_MB).map(([name, mb]) => `${name} took ${mb} MiB`),
        `at most ${all.map(([name, mb]) => `${name} ${mb}`).join(", ")} MiB`,
      );
    },
  },
  foundBy("L4", "asked to stop, a process ends by itself within 20 s, and committed = processed", "orderly stop"),
  elsewhere(
    "L5",
    "a stage that cannot go on says so: the third stop at one offset alerts",
    "tests/guarantees/order.test.ts",
  ),
];
