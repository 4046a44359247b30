// How many dead letters are open, by kind: from the index, with what it has not read yet and what
// waits because a store is down.

import type { Admin } from "../../infra/kafka/admin.ts";
import { pipelineHops } from "../receipts/progress.ts";
import { INDEX_GROUP } from "./confirm-reprocessed.ts";
import { letterTopics } from "./failure.ts";
import type { Depth } from "./letter-index.ts";

export type Counts = Readonly<Record<string, number>>;
/** `isStale`: somebody could not be asked, and what he said last stands for him. */
export interface Known {
  readonly counts: Counts;
  readonly isStale: boolean;
}

/** The last answer stands while there is no new one; null while there never was one. */
export const lastKnown = (ask: () => Promise<Counts>): (() => Promise<Known | null>) => {
  let last: Counts | undefined;
  return async () => {
    try {
      last = await ask();
      return { counts: last, isStale: false };
    } catch {
      return last === undefined ? null : { counts: last, isStale: true };
    }
  };
};

/**
 * Adds up by kind. What is not known at all makes the whole unknown, for a number would be
 * believed.
 */
export const sumOf = (
  parts: readonly (Known | null)[],
): { readonly depth: Depth; readonly isStale: boolean } | null => {
  const known = parts.filter((part) => part !== null);
  if (known.length < parts.length) return null;
  const of = (kind: keyof Depth): number => known.reduce((sum, { counts }) => sum + (counts[kind] ?? 0), 0);
  return {
    depth: { clicks: of("clicks"), pixel: of("pixel"), s2s: of("s2s") },
    isStale: known.some(({ isStale }) => isStale),
  };
};

/**
 * Records of each dead-letter topic that the index has not read; a letter that fails again counts
 * twice for as long as that takes.
 */
export const unreadLetters = async (admin: Admin): Promise<Counts> => {
  const lag = await admin.lag(INDEX_GROUP, Object.values(letterTopics));
  const unread = (of: string): number =>
    lag
      .filter(({ topic }) => topic === of)
      .reduce((sum, { committed, low, high }) => sum + Math.max(0, high - Math.max(committed ?? low, low)), 0);
  return Object.fromEntries(Object.entries(letterTopics).map(([kind, topic]) => [kind, unread(topic)]));
};

/**
 * docs/design/contracts.md, "Dead letters": a store that was down for so long is more than a
 * restart.
 */
const DOWN_MS = 60_000;
/** What stands still without Redis (the chain, whose memory is there), and without ClickHouse. */
const WAITS_FOR_CACHE: readonly string[] = ["tributary.enrich", "tributary.score", "tributary.attribute"];
const WAITS_FOR_ANALYTICS: readonly string[] = ["tributary.analytics"];

/**
 * Events that wait for a store that is down, once the oldest of them has waited for a minute; the
 * log cannot tell of a waiting record what source it has, so all of them count. Nothing is asked
 * while both stores are well.
 */
export const waitingForStores = async (
  admin: () => Promise<Admin>,
  isDown: { readonly cache: boolean; readonly analytics: boolean },
  now: number,
): Promise<Counts> => {
  if (!isDown.cache && !isDown.analytics) return {};
  const asked = await admin();
  const waiting = async (groups: readonly string[]): Promise<number> => {
    let records = 0;
    let hasOld = false;
    for (const [group, topic] of pipelineHops.filter(([name]) => groups.includes(name))) {
      const [lag, before] = await Promise.all([asked.lag(group, [topic]), asked.offsetsAt(topic, now - DOWN_MS)]);
      for (const { partition, committed, low, high, lag: count } of lag) {
        records += count;
        if (count > 0 && Math.min(before.get(partition) ?? high, high) > (committed ?? low)) hasOld = true;
      }
    }
    return hasOld ? records : 0;
  };
  return {
    clicks: isDown.cache ? await waiting(WAITS_FOR_CACHE) : 0,
    s2s: isDown.analytics ? await waiting(WAITS_FOR_ANALYTICS) : 0,
  };
};
