// What a run of the fuzz found, as verdicts: each has its figure, and whether it is as promised.
import type { Sample } from "./edge-watch.ts";
import type { AttackResult } from "./senders.ts";

export interface Verdict {
  readonly says: string;
  readonly isKept: boolean;
  readonly figure: string;
}

/** docs/design/laws.md, "Answers to any input": and 503 only with the time to come again. */
const ALLOWED = new Set([100, 200, 204, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503]);
/** Of our own code, and of the stores: none of it is for a sender. */
const INSIDE = /\bat [\w.<>]+ \(|node_modules|\/dist\/|\bSELECT |ECONNREFUSED|kafkajs|ClickHouse|postgres/;

/** What is wrong with the answers to an attack; null when nothing is. */
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

/** Batch ids of what was accepted. */
export const acceptedIn = ({
  said,
}: AttackResult): readonly { readonly batchId: string; readonly accepted: number }[] =>
  said.flatMap(({ text }) =>
    [...text.matchAll(/"accepted":(\d+),"rejected":\d+.*?"batch_id":"([^"]+)"/gs)]
      .map(([, accepted, batchId]) => ({ batchId: batchId!, accepted: Number(accepted) }))
      .filter(({ accepted }) => accepted > 0),
  );

/** How often each was answered. */
export const statusText = (statuses: ReadonlyMap<number, number>): string =>
  [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, times]) => `${status}: ${times}`)
    .join(", ");

export const quantile = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;

/** A quiet machine answers in a few ms, of which twice is still nothing. */
const FLOOR_MS = 50;
const SLOWER = 2;
/** Law 8: never for a second. In CPU time 200 ms are held by tests/bench/blocking.test.ts. */
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

/** The last third of the storm against the one before it: the first one is what warms up. */
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
