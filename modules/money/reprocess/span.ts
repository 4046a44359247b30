// Reads a span of a topic: first the archive for what Kafka has removed, then Kafka, each partition
// in the order of its offsets.

import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import type { AnyTopic, UnixMs } from "../../../stream/flow.ts";
import type { PastBatch, PastReader } from "../../../stream/ports.ts";
import type { ReadSpan } from "./ports.ts";

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

export interface SpanSettings {
  readonly kafka: {
    readonly admin: () => Promise<Pick<Admin, "watermarks" | "offsetsAt" | "close">>;
    readonly replay: Kafka["replay"];
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
  /** True when the archive joins what Kafka still holds, without a gap. */
  readonly isWhole: boolean;
}

/** Reads the archived messages of a partition before `low`, where Kafka begins. */
const readArchived = async (
  batches: AsyncIterable<PastBatch> | readonly PastBatch[],
  low: number,
  take: (batch: PastBatch) => Promise<void>,
): Promise<ArchivedPart> => {
  let first: number | null = null;
  let next = 0;
  let hasGap = false;
  for await (const batch of batches) {
    hasGap ||= first !== null && batch.from !== next;
    first ??= batch.from;
    next = batch.until;
    await take(batch);
  }
  return { first, isWhole: next === low && !hasGap };
};

/** Partitions with missing messages since the beginning of the span, and since `needed`. */
interface Missing {
  readonly short: readonly number[];
  readonly lost: readonly number[];
}

/** Throws CommandRefused if a part of the needed time is missing; notes any other missing part. */
const reportMissing = (topic: string, { short, lost }: Missing, needed: UnixMs, note: Progress["note"]): void => {
  const since = new Date(needed).toISOString();
  if (lost.length > 0)
    throw new CommandRefused(
      `${topic}: neither Kafka nor the archive holds all of ${partitionsIn(lost)} since ${since}; give a later --from`,
    );
  if (short.length > 0)
    note(
      `${topic}: what came before ${since} is not all there ` +
        `(${partitionsIn(short)}): journeys and persons may be shorter`,
    );
};

/** Reads the offsets at which the span begins and ends in each partition, and those of `needed`. */
const offsetsIn = async (
  kafka: SpanSettings["kafka"],
  topic: string,
  { from, needed, until }: { readonly from: UnixMs; readonly needed: UnixMs; readonly until: UnixMs | null },
) => {
  const admin = await kafka.admin();
  const [marks, starts, neededFrom, ends] = await Promise.all([
    admin.watermarks(topic),
    admin.offsetsAt(topic, from),
    admin.offsetsAt(topic, needed),
    until === null ? undefined : admin.offsetsAt(topic, until),
  ]).finally(() => admin.close());
  return { marks, starts, neededFrom, ends };
};
type SpanOffsets = Awaited<ReturnType<typeof offsetsIn>>;

/** Reads the archived part of every partition whose beginning Kafka has removed. */
const readLostBeginnings = async (
  topic: string,
  from: UnixMs,
  { marks, starts, neededFrom }: SpanOffsets,
  { archived, needed }: Pick<SpanSettings, "archived" | "needed">,
  take: (batch: PastBatch) => Promise<void>,
): Promise<Missing> => {
  // Offsets begin at 0, so a partition that begins later has lost its beginning. That matters only
  // when the span starts there.
  const cut = marks.filter(({ partition, low }) => low > 0 && (starts.get(partition) ?? low) <= low);
  const begins = cut.length === 0 || archived === null ? null : await archived.begins(topic);
  const short: number[] = [];
  const lost: number[] = [];
  for (const { partition, low } of cut) {
    const batches = archived === null ? [] : archived.since(from)(topic, partition, 0, low);
    const { first, isWhole } = await readArchived(batches, low, take);
    // Nothing can be missing when the archive begins at offset 0. Otherwise it must begin before
    // the requested time.
    const isSince = (at: UnixMs): boolean => isWhole && (first === 0 || (begins !== null && begins <= at));
    if (!isSince(from)) short.push(partition);
    if (!isSince(needed) && (neededFrom.get(partition) ?? 0) <= low) lost.push(partition);
  }
  return { short, lost };
};

/** The span rejects with CommandRefused if a part of the needed time is missing. */
export const spansOf =
  ({ kafka, archived, needed, progress }: SpanSettings): ReadSpan =>
  async (topic: AnyTopic, { from, until }, onBatch) => {
    const offsets = await offsetsIn(kafka, topic.name, { from, needed, until });
    const { marks, starts, ends } = offsets;
    const tell = progress(`messages of ${topic.name}`);
    let done = 0;
    let total = 0;
    for (const { partition, low, high } of marks)
      total += Math.max(0, (ends?.get(partition) ?? high) - Math.max(low, starts.get(partition) ?? low));

    const missing = await readLostBeginnings(topic.name, from, offsets, { archived, needed }, async (batch) => {
      total += batch.until - batch.from;
      done += batch.until - batch.from;
      if (batch.messages.length > 0) await onBatch(batch);
      tell.at(done, total);
    });
    reportMissing(topic.name, missing, needed, tell.note);

    await kafka.replay({
      topics: [topic.name],
      from: new Map([[topic.name, starts]]),
      ...(ends === undefined ? {} : { until: new Map([[topic.name, ends]]) }),
      onBatch: async (batch, heartbeat) => {
        await onBatch(batch);
        done += batch.messages.length;
        tell.at(done, total);
        await heartbeat();
      },
    });
    tell.done();
  };
