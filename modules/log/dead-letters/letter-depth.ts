// How many dead letters are open, by kind: from the index, with what it has not read yet and what
// waits because a store is down.

import type { Admin } from "../../../infra/kafka/kafka.ts";
import { type AnyReader, writesRows } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { hopsToStore } from "../groups/hops-to-store.ts";
import type { Hop, Hosts } from "../groups/hosts.ts";
import { INDEX_GROUP } from "./confirm-reprocessed.ts";
import { letterTopics } from "./letter.ts";
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
type Store = "analytics" | "cache";
/** Without what a stage or sink stands still. */
const needs = (node: AnyReader): readonly Store[] => {
  if (node.is === "stage") return node.memory?.driver === "fast" || node.facts?.store === "redis" ? ["cache"] : [];
  if (!writesRows(node)) return [];
  return node.into.store === "clickhouse" ? ["analytics"] : node.into.store === "redis" ? ["cache"] : [];
};

/** Why a group stands still: of all that it hosts one such store is down. The sinks' own first. */
const heldUpBy = (nodes: readonly string[], isDown: Readonly<Record<Store, boolean>>): Store | undefined => {
  const needed = readersOf(pipeline).flatMap((node) => (nodes.includes(node.name) ? needs(node) : []));
  return (["analytics", "cache"] as const).find((store) => isDown[store] && needed.includes(store));
};

/** How many records wait at a hop, and whether one of them has waited for longer than a restart. */
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
 * Events that wait for a store that is down, once the oldest of them has waited for a minute; the
 * log cannot tell of a waiting record what source it has, so all of them count. Nothing is asked
 * while both stores are well.
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
