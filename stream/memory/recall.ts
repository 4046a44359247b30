// Decides which loaded value an event sees, and collects the changes of a batch. Pure; each driver
// has its own rule.
import type { MemoryOf, Position, Recorded } from "../flow.ts";
import type { Change, LoadedMemory, MemoryWrite, Version } from "./memory.ts";

type Codec = Pick<MemoryOf<any>, "decode" | "encode">;

/** The memory of one stage during one batch. */
export interface Recall {
  /** The value under a key that this event sees. */
  readonly meet: (event: Recorded<unknown>, key: string) => unknown;
  readonly note: (event: Recorded<unknown>, key: string, value: unknown) => void;
  /** Those of the given keys that were not loaded yet. */
  readonly lacks: (keys: readonly string[]) => readonly string[];
  /** Adds values that were loaded later because they were missing. */
  readonly learn: (keys: readonly string[], loaded: LoadedMemory) => void;
  /** The outcome of an event that was decided before, in an earlier batch or in this one. */
  readonly decided: (eventId: string) => Uint8Array | undefined;
  /** The partition on which it was decided in an earlier batch. */
  readonly decidedOn: (eventId: string) => number | undefined;
  readonly decide: (event: Recorded<unknown>, outcome: Uint8Array) => void;
  /**
   * Returns what must be stored. `encode` turns a value into bytes; it also receives the event that
   * set the value.
   */
  readonly noted: (
    encode: (event: Recorded<unknown>, value: unknown) => Uint8Array,
  ) => Pick<MemoryWrite, "changes" | "met" | "outcomes" | "forgets">;
  /** How many events needed versions that were already deleted. */
  readonly truncated: () => number;
}

/**
 * The rule of durable memory: an event sees the newest value whatever its position, and every
 * outcome is kept.
 */
const newest = (loaded: LoadedMemory, { decode }: Codec): Recall => {
  const versions = new Map(loaded.versions);
  const later = new Set<string>();
  const met = new Map<string, number>();
  const values = new Map<string, unknown>();
  const changed = new Map<string, { readonly event: Recorded<unknown>; readonly version: number }>();
  const outcomes = new Map<string, { eventId: string; position: Position; bytes: Uint8Array }>();
  const before = (key: string): Version | undefined => versions.get(key)?.at(-1);
  return {
    meet: (_, key) => {
      if (met.has(key)) return values.get(key);
      const known = before(key);
      met.set(key, known?.version ?? 0);
      if (!values.has(key) && known !== undefined) values.set(key, decode(known.value));
      return values.get(key);
    },
    note: (event, key, value) => {
      const version = 1 + (changed.get(key)?.version ?? before(key)?.version ?? 0);
      changed.set(key, { event, version });
      values.set(key, value);
    },
    // What another event of the batch names itself, or has just set, is here already.
    lacks: (keys) => keys.filter((key) => !later.has(key) && !versions.has(key) && !values.has(key)),
    learn: (keys, { versions: more }) => {
      for (const key of keys) later.add(key);
      for (const [key, found] of more) versions.set(key, found);
    },
    decided: (eventId) => loaded.outcomes.get(eventId) ?? outcomes.get(eventId)?.bytes,
    decidedOn: (eventId) => loaded.partitions?.get(eventId),
    decide: ({ id, position }, bytes) => outcomes.set(id, { eventId: id, position, bytes }),
    noted: (encode) => ({
      changes: [...changed].map(([key, { event, version }]): Change => {
        const { id, position } = event;
        const value = encode(event, values.get(key));
        return { key, eventId: id, offset: position.offset, position, version, value };
      }),
      met: [...met].map(([key, version]) => ({ key, version })),
      outcomes: [...outcomes.values()],
      forgets: [],
    }),
    truncated: () => 0,
  };
};

/**
 * Versions from before the batch matter only to events that are read again, and these are rarely
 * far back. Versions made within a batch all stay until the next batch. 100 versions of a journey
 * (about 1 KB each) limit a hot key to 0.1 MB plus the changes of one batch.
 */
const KEPT_VERSIONS = 100;

/**
 * The rule of fast memory: an event sees the newest version that is older than itself and not its
 * own. So an event that is read again, at the same place or later, sees the same value as the first
 * time, unless another event wrote in between.
 */
const byPosition = (loaded: LoadedMemory, { decode, encode }: Codec): Recall => {
  interface KeptOutcome {
    readonly versions: Version[];
    readonly eventIds: Set<string>;
    firstOffset: number;
  }
  const keys = new Map<string, KeptOutcome>();
  const changes: Change[] = [];
  let truncated = 0;
  const keptOf = (key: string): KeptOutcome => {
    const known = keys.get(key);
    if (known !== undefined) return known;
    const versions = [...(loaded.versions.get(key) ?? [])];
    const kept = {
      versions,
      eventIds: new Set(versions.map(({ eventId }) => eventId)),
      firstOffset: Number.POSITIVE_INFINITY,
    };
    keys.set(key, kept);
    return kept;
  };
  return {
    meet: ({ id, position }, key) => {
      const kept = keptOf(key);
      kept.firstOffset = Math.min(kept.firstOffset, position.offset);
      const found = kept.versions.findLast(({ offset, eventId }) => offset < position.offset && eventId !== id);
      if (found === undefined && position.offset <= (loaded.truncated.get(key) ?? -1)) truncated += 1;
      return found === undefined ? undefined : decode(found.value);
    },
    note: ({ id, position }, key, value) => {
      const { versions, eventIds } = keptOf(key);
      if (eventIds.has(id)) return;
      const change = { key, eventId: id, offset: position.offset, position, version: 0, value: encode(value) };
      const after = versions.findLastIndex(({ offset }) => offset < position.offset);
      versions.splice(after + 1, 0, change);
      eventIds.add(id);
      changes.push(change);
    },
    lacks: () => [],
    learn: () => undefined,
    decided: () => undefined,
    decidedOn: () => undefined,
    decide: () => undefined,
    noted: () => ({
      changes,
      met: [],
      outcomes: [],
      forgets: [...keys].flatMap(([key, { versions, firstOffset }]) => {
        const forgotten = versions.filter(({ offset }) => offset < firstOffset).slice(0, -KEPT_VERSIONS);
        if (forgotten.length === 0) return [];
        return { key, eventIds: forgotten.map(({ eventId }) => eventId), before: forgotten.at(-1)!.offset };
      }),
    }),
    truncated: () => truncated,
  };
};

export const recall = (driver: "fast" | "durable", loaded: LoadedMemory, codec: Codec): Recall =>
  driver === "durable" ? newest(loaded, codec) : byPosition(loaded, codec);
