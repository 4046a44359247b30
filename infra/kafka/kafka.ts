// The log: everything of this folder that the rest of the code may use. A process that only writes
// to the log takes producer.ts alone.
import type { Position } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import { type Admin, openAdmin } from "./admin.ts";
import { clientsOf, type KafkaSettings } from "./clients.ts";
import { type Consumer, type ConsumerSettings, openConsumer } from "./consumer.ts";
import { type FetchSettings, stageReading } from "./fetch-settings.ts";
import { openProducers, type Producer, type ProducerSettings } from "./producer.ts";
import { pick, readRanges } from "./records.ts";
import { type LogReplay, type ReplaySettings, replay, type Sources, type Window } from "./replay.ts";

export { type Admin, type GroupState, type Lag, type LastingAdmin, lastingAdmin } from "./admin.ts";
export { connectionOf } from "./clients.ts";
export type { Consumer, ConsumerSettings } from "./consumer.ts";
export { LogGap, LogUnavailable, MembershipLost, Overloaded } from "./errors.ts";
export { copyReading, durableReading, sinkReading, stageReading } from "./fetch-settings.ts";
export type { Producer, ProducerSettings } from "./producer.ts";
export { appendedAt, peek, placeOf } from "./records.ts";
export type { Window as OffsetRange } from "./replay.ts";
export type { TopicSetting } from "./topic-settings.ts";
export { wholeReader } from "./whole.ts";

export interface Kafka extends LogReplay {
  /**
   * Opens no connection before the first message, because an edge must start while the log is away.
   */
  readonly producer: (settings?: ProducerSettings) => Producer;
  /** Resolves once the group has been joined. */
  readonly consumer: (settings: ConsumerSettings) => Promise<Consumer>;
  /** Reads single records, by `placeOf`; records that the log does not hold are left out. */
  readonly pick: (places: readonly Position[]) => Promise<ReadonlyMap<string, InputMessage>>;
  /**
   * Reads ranges of offsets, those of a partition in order. What the log does not hold is left out.
   */
  readonly ranges: (ranges: readonly Window[], onBatch: ReplaySettings["onBatch"]) => Promise<void>;
  readonly admin: () => Promise<Admin>;
}

// Only one record at a time is wanted, so the fetches are small and the broker answers them at
// once.
const pickReading = { minBytes: 1, maxWaitTimeInMs: 100, maxBytesPerPartition: 256 * 1024, maxBytes: 4 * 1024 * 1024 };
// Ranges are short and lie apart: bytes behind the end of one are fetched for nothing.
const rangeReading = { ...pickReading, maxBytesPerPartition: 1024 * 1024, maxBytes: 16 * 1024 * 1024 };

export const openKafka = (settings: KafkaSettings): Kafka => {
  const clients = clientsOf(settings);
  const { prefix } = clients;
  const admin = async (): Promise<Admin> => {
    const connected = clients.admin();
    await connected.connect();
    return openAdmin(connected, prefix);
  };
  const reading = (fetch: FetchSettings): Sources => ({
    admin,
    consumer: (groupId) => clients.consumer({ groupId, ...fetch }),
    prefix,
  });
  return {
    producer: openProducers(settings),
    consumer: (given) => openConsumer(clients.consumer, prefix, given),
    replay: (given) => replay(reading(given.fetch ?? stageReading.fetch), given),
    pick: (places) => pick(reading(pickReading), places),
    ranges: (ranges, onBatch) => readRanges(reading(rangeReading), ranges, onBatch),
    admin,
  };
};
