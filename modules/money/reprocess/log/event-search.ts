// The events that a reprocess needs of events.raw, and where they may lie: those of the window, and
// conversions of its orders around it. An event may be appended long after its receipt, because
// edges keep events while the log is away; so what is missing is looked for in longer and longer
// stretches, and not in all of the log behind the window.
import { MERGE_WINDOW_MS } from "../../../../processors/settle/copies/merge-copy.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { topics } from "../../../../topics.ts";
import { type Claims, SKEW_MS } from "../claims.ts";
import type { ReprocessPorts, ReprocessSettings, Stretch } from "../ports.ts";

/** The first stretch behind the receipt of an event. */
export const USUAL_MS = 2 * SKEW_MS;
/** Later stretches are this much longer than the one before. */
const LONGER = 4;
/** More late ones are not held: then everything is read that may hold one. */
export const MOST_LATE = 500_000;

interface SearchedEvent {
  readonly partition: number | null;
  readonly from: UnixMs;
  /** The event was appended before. */
  readonly until: UnixMs;
}
export interface EventSearch {
  /** Takes note that an event was read. */
  readonly found: (eventId: string) => void;
  /** What to read next; empty when nothing is missing that may still come. */
  readonly next: () => readonly Stretch[];
}

/** The window, with an allowance for clocks. */
export const windowStretch = ({ from, to }: Pick<ReprocessSettings, "from" | "to">): Stretch => ({
  from: from - SKEW_MS,
  until: to + SKEW_MS,
  partition: null,
});

/**
 * Gives what was not given before of a stretch, by partition: an event that came twice would count
 * twice.
 */
const openUnread = () => {
  const given = Array.from({ length: topics.eventsRaw.partitions }, (): Stretch[] => []);
  const ofPartition = (partition: number, from: UnixMs, until: UnixMs): readonly Stretch[] => {
    const own = given[partition]!;
    const fresh: Stretch[] = [];
    let at = from;
    for (const known of own) {
      if (known.until! <= at) continue;
      if (known.from >= until) break;
      if (known.from > at) fresh.push({ partition, from: at, until: known.from });
      at = known.until!;
    }
    if (at < until) fresh.push({ partition, from: at, until });
    // Nearly all events lie where another one was looked for.
    if (fresh.length > 0) {
      own.push(...fresh);
      own.sort((a, b) => a.from - b.from);
    }
    return fresh;
  };
  return ({ partition, from, until }: Stretch): readonly Stretch[] =>
    partition === null
      ? given.flatMap((_, one) => ofPartition(one, from, until!))
      : ofPartition(partition, from, until!);
};

export const openSearch = async (
  { storedAfter, now }: Pick<ReprocessPorts, "storedAfter" | "now">,
  settings: ReprocessSettings,
  claims: Pick<Claims, "near">,
): Promise<EventSearch> => {
  const { from, to } = settings;
  const [behind, last] = [to + SKEW_MS, Math.min(to + MERGE_WINDOW_MS, now + SKEW_MS)];
  const left = new Map<string, SearchedEvent>();
  if (last > behind) {
    const late = await storedAfter(settings, behind);
    for (const id of late.length > MOST_LATE ? [""] : late)
      left.set(id, { partition: null, from: behind, until: last });
  }
  for (const { id, partition, receivedAt, appendedAt } of claims.near) {
    const until = Math.min(appendedAt + SKEW_MS, to + MERGE_WINDOW_MS);
    if (receivedAt < from || receivedAt >= to) left.set(id, { partition, from: receivedAt - SKEW_MS, until });
    // It was late, or attribute was.
    else if (until > behind) left.set(id, { partition, from: behind, until });
  }
  const unread = openUnread();
  let longest = USUAL_MS;
  let hasBegun = false;
  const next = (): readonly Stretch[] => {
    const stretches: Stretch[] = hasBegun ? [] : [...unread(windowStretch(settings))];
    for (const [id, one] of left) {
      // Late events of the window are missing only once the window was read.
      if (!hasBegun && one.from === behind) continue;
      if (one.from >= one.until) {
        left.delete(id);
        continue;
      }
      const until = Math.min(one.from + longest, one.until);
      stretches.push(...unread({ partition: one.partition, from: one.from, until }));
      left.set(id, { ...one, from: until });
    }
    if (hasBegun) longest *= LONGER;
    hasBegun = true;
    // All of it may have been read for another event, which says nothing of the next stretch.
    return stretches.length === 0 && left.size > 0 ? next() : stretches;
  };
  return {
    found: (eventId) => {
      left.delete(eventId);
    },
    next,
  };
};
