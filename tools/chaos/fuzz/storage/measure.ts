// Sends every shape of every door and measures what each store keeps of it.
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../../../infra/runtime/timing/wait-until.ts";
import { groupsOf } from "../../../../modules/log/groups/hosting.ts";
import { workerGroups } from "../../../../modules/running/installation/product.ts";
import { pipeline } from "../../../../topology.ts";
import { readGroups } from "../../hosting.ts";
import type { Target } from "../../target.ts";
import type { Door, Shape } from "./door.ts";
import { added, grownBy, type KeptBytes, type KeptNow, keptNow, nothingKept, rateOf, sumOf } from "./kept-bytes.ts";
import { sendShape, type Traffic } from "./send.ts";

/** The most bytes that may be kept of each byte that a stranger sends. */
export const MOST_KEPT = 3;

export interface Measurement {
  readonly door: string;
  readonly shape: string;
  readonly requests: number;
  readonly sent: number;
  readonly statuses: ReadonlyMap<number, number>;
  readonly kept: KeptBytes;
  /** The bytes that each topic got. */
  readonly topics: ReadonlyMap<string, number>;
}
export interface StorageSettings {
  readonly seed: number;
  /** The length of the quiet time before, in which nothing is sent. */
  readonly quietMs: number;
  /** What one shape sends in one round, at most. */
  readonly mostBytes: number;
  readonly mostMs: number;
}

const READ_WITHIN_MS = 60_000;
const COPIED_WITHIN_MS = 150_000;
const SETTLED_MS = 500;

export const ratioOf = ({ sent, kept }: Pick<Measurement, "sent" | "kept">): number => sumOf(kept) / Math.max(1, sent);

const topicsGrown = (before: KeptNow, after: KeptNow): ReadonlyMap<string, number> =>
  new Map(
    [...after.topics]
      .map(([topic, bytes]) => [topic, bytes - (before.topics.get(topic) ?? 0)] as const)
      .filter(([, bytes]) => bytes > 0),
  );

const plus = <Key>(one: ReadonlyMap<Key, number>, other: ReadonlyMap<Key, number>): ReadonlyMap<Key, number> => {
  const sums = new Map(one);
  for (const [key, count] of other) sums.set(key, (sums.get(key) ?? 0) + count);
  return sums;
};

/** The same shape of the same door, over all rounds. */
const summed = (all: readonly Measurement[]): readonly Measurement[] => {
  const sums = new Map<string, Measurement>();
  for (const one of all) {
    const key = `${one.door}: ${one.shape}`;
    const sum = sums.get(key);
    sums.set(
      key,
      sum === undefined
        ? one
        : {
            ...one,
            requests: sum.requests + one.requests,
            sent: sum.sent + one.sent,
            statuses: plus(sum.statuses, one.statuses),
            kept: added(sum.kept, one.kept),
            topics: plus(sum.topics, one.topics),
          },
    );
  }
  return [...sums.values()];
};

const seedOf = (seed: number, name: string): number =>
  [...name].reduce((mixed, sign) => Math.imul(mixed ^ sign.charCodeAt(0), 16_777_619), seed ^ 0x811c9dc5);

/**
 * The copy of the log in object storage is written up to a minute later, so it is measured once for
 * all shapes, and shared out by what each of them has brought to the copied topics.
 */
const copied = groupsOf(pipeline, [...workerGroups]).filter(({ is }) => is === "copy");

/** Waits for the groups one after the other; the order of the pipeline leaves nothing under way. */
const untilRead = (
  target: Target,
  groups: readonly { readonly name: string; readonly topic: string }[],
  deadlineMs: number,
): Promise<void> =>
  target.withAdmin(async (admin) => {
    for (const { name, topic } of groups)
      await until(`${name} has read ${topic}`, deadlineMs, async () => {
        const left = (await admin.lag(name, [topic])).reduce((sum, { lag }) => sum + lag, 0);
        if (left > 0) throw new Error(`it lags by ${left}`);
      });
  });
const untilCopied = (target: Target): Promise<void> =>
  untilRead(
    target,
    copied.map(({ name, reads }) => ({ name, topic: reads.name })),
    COPIED_WITHIN_MS,
  );
const untilStored = (target: Target): Promise<void> => untilRead(target, readGroups, READ_WITHIN_MS);

const copiedBytes = ({ topics }: Measurement): number =>
  copied.reduce((sum, { reads }) => sum + (topics.get(reads.name) ?? 0), 0);

const withCopies = (all: readonly Measurement[], bytes: number): readonly Measurement[] => {
  const total = all.reduce((sum, one) => sum + copiedBytes(one), 0);
  if (total === 0) return all;
  return all.map((one) => ({
    ...one,
    kept: added(one.kept, { ...nothingKept, objects: (bytes * copiedBytes(one)) / total }),
  }));
};

/** Opens the measure of an installation: what comes by itself is known after a quiet time. */
export const openStorage = async (target: Target, settings: StorageSettings) => {
  const { seed, quietMs } = settings;
  await untilCopied(target);
  await untilStored(target);
  const calm = await keptNow(target);
  await sleep(quietMs);
  const began = await keptNow(target);
  const byItself = rateOf(calm, began);
  const measured: Measurement[] = [];
  let direct = 0;
  const rounds = new Map<string, number>();
  const shapeOf = async (door: Door, shape: Shape): Promise<Measurement> => {
    const name = `${door.name}: ${shape.what}`;
    const from = rounds.get(name) ?? 0;
    const before = await keptNow(target);
    const sent: Traffic = await sendShape(shape, {
      ...{ url: target.run().apps[door.app]!.url, seed: seedOf(seed + from, name), from },
      ...{ mostBytes: settings.mostBytes, mostMs: settings.mostMs },
    });
    rounds.set(name, from + sent.requests);
    await untilStored(target);
    await sleep(SETTLED_MS);
    const after = await keptNow(target);
    const topics = topicsGrown(before, after);
    // Files of the copy that come meanwhile belong to any shape; what else comes into object
    // storage comes from doors that write there themselves.
    const grown = grownBy(before, after, byItself);
    const objects = door.name === "recordings" ? grown.objects : 0;
    direct += objects;
    const one = {
      ...{ door: door.name, shape: shape.what, requests: sent.requests, sent: sent.bytes, statuses: sent.statuses },
      ...{ kept: { ...grown, objects }, topics },
    };
    measured.push(one);
    return one;
  };
  return {
    /** Bytes a millisecond that come while nothing is sent. */
    byItself,
    shapeOf,
    /** Waits for the copies; the sums of every shape. */
    end: async (): Promise<readonly Measurement[]> => {
      await untilCopied(target);
      const objects = (await keptNow(target)).bytes.objects - began.bytes.objects;
      return withCopies(summed(measured), Math.max(0, objects - direct));
    },
  };
};
