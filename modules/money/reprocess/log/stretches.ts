// Reads stretches of a topic: first the archive for what Kafka has removed, then Kafka, each
// partition in the order of its offsets.

import type { Admin, Kafka, OffsetRange } from "../../../../infra/kafka/kafka.ts";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import type { AnyTopic, UnixMs } from "../../../../stream/flow.ts";
import type { PastBatch, PastReader } from "../../../../stream/ports.ts";
import type { ReadStretches, Stretch } from "../ports.ts";

/** Receives the progress of the reading of one topic. */
export interface Progress {
  readonly at: (done: number, total: number) => void;
  readonly note: (text: string) => void;
  readonly done: () => void;
}

export interface ArchiveReader {
  readonly since: (at: UnixMs) => PastReader;
  /** The first hour in the archive; null: it is empty. */
  readonly begins: (topic: string) => Promise<UnixMs | null>;
}

export interface StretchSettings {
  readonly kafka: {
    readonly admin: () => Promise<Pick<Admin, "watermarks" | "offsetsAt" | "close">>;
    readonly ranges: Kafka["ranges"];
  };
  /** The archived part of a topic from a time on; null: this installation has no archive. */
  readonly archived: ArchiveReader | null;
  /** Every message from this time on must be found. Missing earlier messages are only reported. */
  readonly needed: UnixMs;
  /** Makes a progress for each topic that is read. */
  readonly progress: (unit: string) => Progress;
}

const partitionsIn = (partitions: readonly number[]): string =>
  `partition${partitions.length === 1 ? "" : "s"} ${partitions.join(", ")}`;

interface ArchivedPart {
  /** The first archived offset; null: the archive holds nothing of the partition. */
  readonly first: number | null;
  /** Without a gap, the archive joins what Kafka still holds, or goes on behind the stretch. */
  readonly isWhole: boolean;
}

/**
 * Reads the archived messages of a stretch before `low`, where Kafka begins. The batches begin with
 * the hour of the stretch.
 */
const readArchived = async (
  batches: AsyncIterable<PastBatch> | readonly PastBatch[],
  { low, from, until }: { readonly low: number; readonly from: UnixMs; readonly until: UnixMs },
  take: (batch: PastBatch) => Promise<void>,
): Promise<ArchivedPart> => {
  let first: number | null = null;
  let next = 0;
  let hasGap = false;
  let isBehind = false;
  for await (const batch of batches) {
    hasGap ||= first !== null && batch.from !== next;
    first ??= batch.from;
    next = batch.until;
    await take({
      ...batch,
      messages: batch.messages.filter((one) => one.appendedAt >= from && one.appendedAt < until),
    });
    isBehind = batch.messages.some(({ appendedAt }) => appendedAt >= until);
    if (isBehind) break;
  }
  return { first, isWhole: (isBehind || next === low) && !hasGap };
};

/** Partitions with missing messages in the stretches, and since `needed`. */
interface Missing {
  readonly short: ReadonlySet<number>;
  readonly lost: ReadonlySet<number>;
}

/** Throws CommandRefused if a part of the needed time is missing; notes any other missing part. */
const reportMissing = (topic: string, { short, lost }: Missing, needed: UnixMs, note: Progress["note"]): void => {
  const since = new Date(needed).toISOString();
  if (lost.size > 0)
    throw new CommandRefused(
      `${topic}: neither Kafka nor the archive holds all of ${partitionsIn([...lost])} since ${since}; ` +
        "give a later --from",
    );
  if (short.size > 0)
    note(
      `${topic}: what came before ${since} is not all there ` +
        `(${partitionsIn([...short])}): copies of before are taken as they were read then`,
    );
};

/** A stretch in one partition, with its offsets in what Kafka holds. */
interface Place {
  readonly stretch: Stretch;
  readonly partition: number;
  readonly low: number;
  readonly start: number;
  readonly end: number;
}

/** Answers with the offsets of times; each time is asked for once. */
const offsetsOf = (admin: Pick<Admin, "offsetsAt">, topic: string) => {
  const asked = new Map<UnixMs, ReturnType<Admin["offsetsAt"]>>();
  return (at: UnixMs): ReturnType<Admin["offsetsAt"]> => {
    const known = asked.get(at) ?? admin.offsetsAt(topic, at);
    asked.set(at, known);
    return known;
  };
};

/** A stretch of one partition. */
type OwnStretch = Stretch & { readonly partition: number };

/** The stretches of one partition in order, without overlaps. */
const joined = (stretches: readonly Stretch[], partition: number): readonly OwnStretch[] => {
  const found: OwnStretch[] = [];
  const own = stretches.filter((one) => one.partition === null || one.partition === partition);
  for (const one of own.toSorted((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last === undefined || (last.until !== null && one.from > last.until)) found.push({ ...one, partition });
    else if (last.until !== null && (one.until === null || one.until > last.until))
      found[found.length - 1] = { ...last, until: one.until };
  }
  return found;
};

const placesIn = async (
  kafka: Pick<StretchSettings["kafka"], "admin">,
  topic: string,
  { stretches, needed }: { readonly stretches: readonly Stretch[]; readonly needed: UnixMs },
): Promise<{ readonly places: readonly Place[]; readonly neededFrom: ReadonlyMap<number, number> }> => {
  const admin = await kafka.admin();
  try {
    const at = offsetsOf(admin, topic);
    const [marks, neededFrom] = await Promise.all([admin.watermarks(topic), at(needed)]);
    const places: Place[] = [];
    for (const { partition, low, high } of marks)
      for (const stretch of joined(stretches, partition)) {
        const starts = await at(stretch.from);
        const ends = stretch.until === null ? undefined : await at(stretch.until);
        const start = Math.max(low, starts.get(partition) ?? low);
        places.push({ stretch, partition, low, start, end: ends?.get(partition) ?? high });
      }
    return { places, neededFrom };
  } finally {
    await admin.close();
  }
};

/** Reads the archived part of every place whose beginning Kafka has removed. */
const readLostBeginnings = async (
  topic: string,
  places: readonly Place[],
  {
    archived,
    needed,
    neededFrom,
  }: Pick<StretchSettings, "archived" | "needed"> & {
    readonly neededFrom: ReadonlyMap<number, number>;
  },
  take: (batch: PastBatch) => Promise<void>,
): Promise<Missing> => {
  // Offsets begin at 0, so a partition that begins later has lost its beginning. That matters only
  // when the stretch starts there.
  const cut = places.filter(({ low, start }) => low > 0 && start <= low);
  const begins = cut.length === 0 || archived === null ? null : await archived.begins(topic);
  const short = new Set<number>();
  const lost = new Set<number>();
  for (const { partition, low, stretch } of cut) {
    const until = stretch.until ?? Number.POSITIVE_INFINITY;
    const batches = archived === null ? [] : archived.since(stretch.from)(topic, partition, 0, low);
    const { first, isWhole } = await readArchived(batches, { low, from: stretch.from, until }, take);
    // Nothing can be missing when the archive begins at offset 0. Otherwise it must begin before
    // the requested time.
    const isSince = (at: UnixMs): boolean => isWhole && (first === 0 || (begins !== null && begins <= at));
    if (!isSince(stretch.from)) short.add(partition);
    const isNeeded = until > needed && (neededFrom.get(partition) ?? 0) <= low;
    if (isNeeded && !isSince(Math.max(stretch.from, needed))) lost.add(partition);
  }
  return { short, lost };
};

const sizeOf = ({ start, end }: Pick<OffsetRange, "start" | "end">): number => Math.max(0, end - start);

/** The messages that Kafka holds of these stretches. */
export const sizeIn = async (
  kafka: Pick<StretchSettings["kafka"], "admin">,
  topic: AnyTopic,
  stretches: readonly Stretch[],
): Promise<number> => {
  const { places } = await placesIn(kafka, topic.name, { stretches, needed: stretches[0]!.from });
  return places.reduce((sum, place) => sum + sizeOf(place), 0);
};

/** Reading rejects with CommandRefused if a part of the needed time is missing. */
export const stretchesOf =
  ({ kafka, archived, needed, progress }: StretchSettings): ReadStretches =>
  async (topic, stretches, onBatch) => {
    if (stretches.length === 0) return;
    const { places, neededFrom } = await placesIn(kafka, topic.name, { stretches, needed });
    const tell = progress(`messages of ${topic.name}`);
    let done = 0;
    let total = places.reduce((sum, place) => sum + sizeOf(place), 0);

    const missing = await readLostBeginnings(topic.name, places, { archived, needed, neededFrom }, async (batch) => {
      total += batch.messages.length;
      done += batch.messages.length;
      if (batch.messages.length > 0) await onBatch(batch);
      tell.at(done, total);
    });
    reportMissing(topic.name, missing, needed, tell.note);

    await kafka.ranges(
      places.map(({ partition, start, end }) => ({ topic: topic.name, partition, start, end })),
      async (batch, heartbeat) => {
        await onBatch(batch);
        done += batch.messages.length;
        tell.at(done, total);
        await heartbeat();
      },
    );
    tell.done();
  };
