// Writes to the log: in order and awaited for a worker (send), gathered and bounded for an edge
// (publish). A process that only writes to the log loads this file and no reader.
import type { OutputMessage } from "../../stream/messages.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import { retry } from "../runtime/timing/retry.ts";
import type { ClientProducer } from "./client/types.ts";
import { clientsOf, type KafkaSettings, type Partitioner } from "./clients.ts";
import { Queue } from "./queue.ts";
import { Chunk, Requests, unavailable } from "./requests.ts";

export { Overloaded } from "./errors.ts";

export interface ProducerSettings {
  /**
   * send: how long the acknowledgement of one chunk may take, with repetitions. 30 s is longer than
   * the restart of a broker.
   */
  readonly sendDeadlineMs?: number;
  /**
   * publish: how long a caller waits before it must store its events elsewhere
   * (docs/design/contracts.md, "Failover": 2 s, then the spool).
   */
  readonly publishDeadlineMs?: number;
  /**
   * publish: the most that may be accepted and not yet acknowledged. 50,000 events of 480 bytes are
   * 24 MB; the bytes bound larger events.
   */
  readonly maxWaiting?: { readonly messages: number; readonly bytes: number };
  readonly maxInFlight?: number;
}

export interface Producer {
  /**
   * Resolves after all replicas have acknowledged every message, in order. Throws LogUnavailable,
   * or the error with which the log refused a message.
   */
  readonly send: (messages: readonly OutputMessage[]) => Promise<void>;
  /**
   * Publishes for concurrent callers: their messages share requests, and their order is kept within
   * one call. Throws Overloaded, LogUnavailable.
   */
  readonly publish: (messages: readonly OutputMessage[]) => Promise<void>;
  /**
   * False from the first failure until the next acknowledgement: an edge then need not wait for its
   * deadline.
   */
  readonly isAvailable: () => boolean;
  readonly waiting: () => { readonly messages: number; readonly bytes: number };
  /**
   * Waits until the callers of `publish` have their answers, then disconnects. Messages that no
   * caller waits for any more are given up.
   */
  readonly close: () => Promise<void>;
}

export const openProducer = (newClient: () => ClientProducer, prefix: string, settings: ProducerSettings): Producer => {
  const { sendDeadlineMs = 30_000, publishDeadlineMs = 2_000, maxInFlight = 4 } = settings;
  const maxWaiting = settings.maxWaiting ?? { messages: 50_000, bytes: 64 * 1024 * 1024 };
  const requests = new Requests(newClient);
  const queue = new Queue(requests, prefix, { deadlineMs: publishDeadlineMs, maxWaiting, maxInFlight });

  const send = async (messages: readonly OutputMessage[]): Promise<void> => {
    for (let at = 0; at < messages.length; ) {
      const chunk = new Chunk();
      while (at < messages.length && !chunk.isFull()) chunk.add(prefix, messages[at++]!);
      const end = performance.now() + sendDeadlineMs;
      // A request that is given up is cut off together with its client; otherwise it could arrive
      // after its own repetition.
      await retry(() => requests.attempt(chunk, Math.max(1, end - performance.now()), true), {
        deadlineMs: sendDeadlineMs,
        maxMs: 1_000,
      }).catch((error) => {
        throw unavailable(error);
      });
    }
  };

  return {
    send,
    publish: (messages) => queue.publish(messages),
    isAvailable: () => requests.isAvailable,
    waiting: () => queue.waiting(),
    close: async () => {
      await queue.close();
      await requests.close();
    },
  };
};

/**
 * Makes producers of one configuration. They open no connection before the first message, because
 * an edge must start while the log is away.
 */
export const openProducers = (settings: KafkaSettings): ((given?: ProducerSettings) => Producer) => {
  const clients = clientsOf(settings);
  return (given = {}) => openProducer(() => clients.producer(byKey), clients.prefix, given);
};

/**
 * The partition of a key, as Java's client computes it; messages without a key take the partitions
 * in turn.
 */
const byKey: Partitioner = () => {
  let next = 0;
  return ({
    message,
    partitionMetadata,
  }: {
    message: { key?: Buffer | string | null };
    partitionMetadata: readonly unknown[];
  }): number => {
    const { key } = message;
    if (key === null || key === undefined) return next++ % partitionMetadata.length;
    return partitionOf(typeof key === "string" ? Buffer.from(key) : key, partitionMetadata.length);
  };
};
