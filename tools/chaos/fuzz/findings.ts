// Results of a fuzz run as verdicts: each has a figure, and says whether the promise was kept.
import type { Sample } from "./edge-watch.ts";
import type { AttackResult } from "./senders.ts";

export interface Verdict {
  readonly says: string;
  readonly isKept: boolean;
  readonly figure: string;
}

/** docs/design/laws.md, "Answers to any input"; a 503 must also say when to retry. */
const ALLOWED = new Set([100, 200, 204, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503]);
/** Signs of our own code and of the stores, which no sender may see. */
const INSIDE = /\bat [\w.<>]+ \(|node_modules|\/dist\/|\bSELECT |ECONNREFUSED|kafkajs|ClickHouse|postgres/;

/** The first error in the answers to an attack, or null. */
export const wrongWith = ({ said }: AttackResult): string | null => {
  for (const { statuses, text } of said) {
    const odd = statuses.find((status) => !ALLOWED.has(status));
    if (odd !== undefined) return `it was answered ${odd}`;
    if (statuses.includes(503) && !/retry-after: \d+/i.test(text)) return "503 does not say when to come again";
    const inside = INSIDE.exec(text);
    if (inside !== null) return `the answer says ${inside[0]}`;
  }
  return null;
};

/** The ids of accepted batches. */
export const acceptedIn = ({
  said,
}: AttackResult): readonly { readonly batchId: string; readonly accepted: number }[] =>
  said.flatMap(({ text }) =>
    [...text.matchAll(/"accepted":(\d+),"rejected":\d+.*?"batch_id":"([^"]+)"/gs)]
      .map(([, accepted, batchId]) => ({ batchId: batchId!, accepted: Number(accepted) }))
      .filter(({ accepted }) => accepted > 0),
  );

/** The number of answers with each status, as text. */
export const statusText = (statuses: ReadonlyMap<number, number>): string =>
  [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, times]) => `${status}: ${times}`)
    .join(", ");

export const quantile = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;

/** A quiet machine answers within a few ms, and twice of that is still fast. */
const FLOOR_MS = 50;
const SLOWER = 2;
/** Law 8 allows less than a second; tests/bench/blocking.test.ts holds 200 ms of CPU time. */
const MOST_BLOCKED_MS = 1_000;
const MOST_GROWTH_MB = 50;

export const slowed = (calm: readonly number[], storm: readonly number[]): Verdict => {
  const [before, during] = [quantile(calm, 0.95), quantile(storm, 0.95)];
  return {
    says: "no good tenant is slowed beyond twice its time",
    isKept: during <= SLOWER * Math.max(before, FLOOR_MS),
    figure:
      `p50 ${Math.round(quantile(calm, 0.5))} -> ${Math.round(quantile(storm, 0.5))} ms, ` +
      `p95 ${Math.round(before)} -> ${Math.round(during)} ms, ${calm.length} and ${storm.length} requests`,
  };
};

const medianRss = (samples: readonly Sample[]): number =>
  quantile(
    samples.map(({ rssMb }) => rssMb),
    0.5,
  );

/**
 * Compares the last third of the storm with the middle one; in the first third the process warms
 * up.
 */
export const flat = (samples: readonly Sample[]): Verdict => {
  const third = Math.floor(samples.length / 3);
  const [middle, last] = [medianRss(samples.slice(third, 2 * third)), medianRss(samples.slice(2 * third))];
  const most = Math.max(...samples.map(({ rssMb }) => rssMb));
  return {
    says: "the memory of the edge is flat",
    isKept: last - middle <= MOST_GROWTH_MB,
    figure: `middle third ${Math.round(middle)} MiB, last third ${Math.round(last)}, most ${Math.round(most)}`,
  };
};

export const blocked = (samples: readonly Sample[]): Verdict => {
  const times = samples.map(({ blockedMs }) => blockedMs);
  const longest = Math.max(0, ...times);
  return {
    says: "the event loop is never blocked for a second",
    isKept: longest < MOST_BLOCKED_MS,
    figure:
      `longest ${Math.round(longest)} ms without waiting for a core, ` +
      `${Math.round(Math.max(0, ...samples.map(({ lagMs }) => lagMs)))} ms with it`,
  };
};
