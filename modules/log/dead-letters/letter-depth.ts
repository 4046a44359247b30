// Counts open dead letters by kind: those in the index, those it has not read yet, and events that
// wait because a store is down.

import { letterTopics } from "../../../edges/dead-letters.ts";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { type AnyReader, writesRows } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { hopsToStore } from "../groups/hops-to-store.ts";
import type { Hop, Hosts } from "../groups/hosts.ts";
import { INDEX_GROUP } from "./confirm-reprocessed.ts";
import type { Depth } from "./letter-index.ts";

export type Counts = Readonly<Record<string, number>>;
/** `isStale`: the last read failed, so `counts` are from the read before. */
export interface DepthAnswer {
  readonly counts: Counts;
  readonly isStale: boolean;
}

/**
 * Wraps a read so that its last result is returned while it fails; null until the first success.
 */
export const lastKnown = (ask: () => Promise<Counts>): (() => Promise<DepthAnswer | null>) => {
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
 * Adds up by kind. Returns null when any part was never read, because a partial sum would look like
 * a true one.
 */
export const sumOf = (
  parts: readonly (DepthAnswer | null)[],
): { readonly depth: Depth; readonly fewStrangers: number; readonly isStale: boolean } | null => {
  const known = parts.filter((part) => part !== null);
  if (known.length < parts.length) return null;
  const of = (kind: keyof Depth | "fewStrangers"): number =>
    known.reduce((sum, { counts }) => sum + (counts[kind] ?? 0), 0);
  return {
    depth: { clicks: of("clicks"), pixel: of("pixel"), s2s: of("s2s") },
    fewStrangers: of("fewStrangers"),
    isStale: known.some(({ isStale }) => isStale),
  };
};

/**
 * Counts records of each dead-letter topic that the index has not read. A letter that failed again
 * counts twice until the index has read that failure.
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
 * A store that is down for longer than this is more than a restart (docs/design/contracts.md, "Dead
 * letters").
 */
const DOWN_MS = 60_000;
export type Store = "analytics" | "cache";
/** Returns the stores without which a stage or sink stands still. */
export const needs = (node: AnyReader): readonly Store[] => {
  if (node.is === "stage") return node.memory?.driver === "fast" || node.facts?.store === "redis" ? ["cache"] : [];
  if (!writesRows(node)) return [];
  return node.into.store === "clickhouse" ? ["analytics"] : node.into.store === "redis" ? ["cache"] : [];
};

/**
 * Returns the store that stops a group: one that is down and that any stage or sink of it needs. A
 * sink's store comes first.
 */
const heldUpBy = (nodes: readonly string[], isDown: Readonly<Record<Store, boolean>>): Store | undefined => {
  const needed = readersOf(pipeline).flatMap((node) => (nodes.includes(node.name) ? needs(node) : []));
  return (["analytics", "cache"] as const).find((store) => isDown[store] && needed.includes(store));
};

/**
 * Counts the records that wait at a hop, and tells whether one has waited longer than `DOWN_MS`.
 */
const waitingAt = async (
  asked: Pick<Admin, "lag" | "offsetsAt">,
  { group, topic }: Hop,
  now: number,
): Promise<{ readonly records: number; readonly hasOld: boolean }> => {
  const [lag, before] = await Promise.all([asked.lag(group, [topic]), asked.offsetsAt(topic, now - DOWN_MS)]);
  const waiting = lag.filter((one) => one.lag > 0);
  return {
    records: waiting.reduce((sum, one) => sum + one.lag, 0),
    hasOld: waiting.some(
      ({ partition, committed, low, high }) => Math.min(before.get(partition) ?? high, high) > (committed ?? low),
    ),
  };
};

export interface StorePorts {
  readonly admin: () => Promise<Pick<Admin, "lag" | "offsetsAt">>;
  readonly hosts: () => Promise<Hosts>;
}

/**
 * Counts events that wait for a store that is down, once the oldest has waited for a minute. A lag
 * does not reveal which source a record has, so all of them count. Sends no query while both stores
 * are up.
 */
export const waitingForStores = async (
  { admin, hosts }: StorePorts,
  isDown: Readonly<Record<Store, boolean>>,
  now: number,
): Promise<Counts> => {
  if (!isDown.cache && !isDown.analytics) return {};
  const [asked, hosted] = await Promise.all([admin(), hosts()]);
  const held = hopsToStore(hosted).map((hop) => ({ hop, store: heldUpBy(hop.nodes, isDown) }));
  const waitingFor = async (store: Store): Promise<number> => {
    const found = await Promise.all(
      held.filter((one) => one.store === store).map(({ hop }) => waitingAt(asked, hop, now)),
    );
    return found.some(({ hasOld }) => hasOld) ? found.reduce((sum, { records }) => sum + records, 0) : 0;
  };
  return { clicks: await waitingFor("cache"), s2s: await waitingFor("analytics") };
};
