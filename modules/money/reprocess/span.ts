// Reads a span of a topic: what Kafka has removed from the archive, then the remainder from Kafka,
// each partition in the order of its offsets.

import type { Admin, Kafka } from "../../../infra/kafka/kafka.ts";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import type { AnyTopic, UnixMs } from "../../../stream/flow.ts";
import type { PastReader } from "../../../stream/ports.ts";
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
  /** Every message from then on must be found. Earlier ones may be missing, and are reported. */
  readonly needed: UnixMs;
  /** Makes one progress for each topic that is read. */
  readonly progress: (unit: string) => Progress;
}

const partitionsIn = (partitions: readonly number[]): string =>
  `partition${partitions.length === 1 ? "" : "s"} ${partitions.join(", ")}`;

/** Throws Refused when a part of what is needed was found nowhere. */
export const spansOf =
  ({ kafka, archived, needed, progress }: SpanSettings): ReadSpan =>
  async (topic: AnyTopic, { from, until }, onBatch) => {
    const admin = await kafka.admin();
    const [marks, starts, neededFrom, ends] = await Promise.all([
      admin.watermarks(topic.name),
      admin.offsetsAt(topic.name, from),
      admin.offsetsAt(topic.name, needed),
      until === null ? undefined : admin.offsetsAt(topic.name, until),
    ]).finally(() => admin.close());
    const tell = progress(`messages of ${topic.name}`);
    let done = 0;
    let total = 0;
    for (const { partition, low, high } of marks)
      total += Math.max(0, (ends?.get(partition) ?? high) - Math.max(low, starts.get(partition) ?? low));

    // Offsets begin at 0, so a partition that begins later has lost its beginning. That matters
    // only when the span starts there.
    const cut = marks.filter(({ partition, low }) => low > 0 && (starts.get(partition) ?? low) <= low);
    const begins = cut.length === 0 || archived === null ? null : await archived.begins(topic.name);
    /** Partitions with missing messages since `from`, and since `needed`. */
    const short: number[] = [];
    const lost: number[] = [];
    for (const { partition, low } of cut) {
      let first: number | null = null;
      let next = 0;
      let hasGap = false;
      for await (const batch of archived === null ? [] : archived.since(from)(topic.name, partition, 0, low)) {
        hasGap ||= first !== null && batch.from !== next;
        first ??= batch.from;
        next = batch.until;
        total += batch.until - batch.from;
        done += batch.until - batch.from;
        if (batch.messages.length > 0) await onBatch(batch);
        tell.at(done, total);
      }
      // Nothing can be missing when the archive begins at offset 0. Otherwise it must begin before
      // the requested time.
      const isWhole = next === low && !hasGap;
      const isSince = (at: UnixMs): boolean => isWhole && (first === 0 || (begins !== null && begins <= at));
      if (!isSince(from)) short.push(partition);
      if (!isSince(needed) && (neededFrom.get(partition) ?? 0) <= low) lost.push(partition);
    }
    if (lost.length > 0)
      throw new CommandRefused(
        `${topic.name}: neither Kafka nor the archive holds all of ${partitionsIn(lost)} since ` +
          `${new Date(needed).toISOString()}; give a later --from`,
      );
    if (short.length > 0)
      tell.note(
        `${topic.name}: what came before ${new Date(needed).toISOString()} is not all there ` +
          `(${partitionsIn(short)}): journeys and persons may be shorter`,
      );

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
