// Writes to the log: in order and awaited for a worker (send), gathered and bounded for an edge
// (publish).

import type { OutputMessage } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";
import { retry, systemClock } from "../runtime/retry.ts";
import type { ClientMessage, ClientProducer } from "./client/types.ts";
import { LogUnavailable, Overloaded } from "./errors.ts";

export interface ProducerSettings {
  /**
   * send: how long the acknowledgement of one chunk may take, repetitions included. 30 s outlasts
   * the restart of a broker.
   */
  readonly sendDeadlineMs?: number;
  /**
   * publish: how long a caller waits before it must find another place for its events
   * (docs/design/contracts.md, "Failover": 2 s, then the spool).
   */
  readonly publishDeadlineMs?: number;
  /**
   * publish: what may be taken and not yet acknowledged. 50,000 events of 480 bytes are 24 MB; the
   * bytes bound larger ones.
   */
  readonly maxWaiting?: { readonly messages: number; readonly bytes: number };
  readonly maxInFlight?: number;
}

export interface Producer {
  /**
   * Resolves after every message is acknowledged by all replicas, in order. Throws LogUnavailable,
   * or what the log refused a message for.
   */
  readonly send: (messages: readonly OutputMessage[]) => Promise<void>;
  /**
   * The same for callers that arrive together: their messages share requests, and their order is
   * kept within one call. Throws Overloaded, LogUnavailable.
   */
  readonly publish: (messages: readonly OutputMessage[]) => Promise<void>;
  /**
   * False from the first failure until the next acknowledgement: an edge then need not wait for its
   * deadline.
   */
  readonly isAvailable: () => boolean;
  readonly waiting: () => { readonly messages: number; readonly bytes: number };
  /**
   * Waits for the callers of `publish` to be told, then disconnects; what no caller waits for any
   * more is given up.
   */
  readonly close: () => Promise<void>;
}

// The client groups a send by partition in quadratic time: 500-1,000 messages cost it 0.45 us each,
// 10,000 cost 6.
const CHUNK_MESSAGES = 1_000;
// A quarter of message.max.bytes (16 MiB), so that one record of the largest size an edge takes (1
// MiB) always fits beside its chunk.
const CHUNK_BYTES = 4 * 1024 * 1024;
const DISCONNECT_MS = 1_000;
// The client keeps a half-open socket after a timeout; a new client is the only way out of that.
const SILENCE_MS = 30_000;

type TopicMessages = { topic: string; messages: ClientMessage[] };

/** Messages of one request, grouped by topic, order kept inside each. */
class Chunk {
  readonly byTopic: TopicMessages[] = [];
  count = 0;
  bytes = 0;

  isFull(): boolean {
    return this.count >= CHUNK_MESSAGES || this.bytes >= CHUNK_BYTES;
  }

  add(prefix: string, message: OutputMessage): void {
    const topic = prefix + message.topic;
    let group = this.byTopic.find((each) => each.topic === topic);
    if (group === undefined) {
      group = { topic, messages: [] };
      this.byTopic.push(group);
    }
    const key = typeof message.key === "string" ? Buffer.from(message.key) : message.key;
    group.messages.push(
      message.headers === undefined
        ? { key, value: message.value }
        : { key, value: message.value, headers: message.headers },
    );
    this.count++;
    this.bytes += sizeOf(message);
  }
}

const sizeOf = ({ key, value }: OutputMessage): number => (key?.length ?? 0) + (value?.length ?? 0);

/** One client and what is under way on it; a replaced client fails all of it at once. */
interface Connection {
  readonly client: ClientProducer;
  readonly underWay: Set<(error: Error) => void>;
  ready: Promise<void> | undefined;
}

/** Part of a publish call: the call is done when all of its messages are acknowledged. */
interface Waiting {
  readonly messages: readonly OutputMessage[];
  readonly bytes: number;
  readonly deadline: number;
  readonly settle: (error?: unknown) => void;
  taken: number;
  unacknowledged: number;
  isSettled: boolean;
}

export const openProducer = (newClient: () => ClientProducer, prefix: string, settings: ProducerSettings): Producer => {
  const { sendDeadlineMs = 30_000, publishDeadlineMs = 2_000, maxInFlight = 4 } = settings;
  const maxWaiting = settings.maxWaiting ?? { messages: 50_000, bytes: 64 * 1024 * 1024 };
  const fresh = (): Connection => ({ client: newClient(), underWay: new Set(), ready: undefined });
  let connection = fresh();
  let isAvailable = true;
  let isClosed = false;

  const replace = (old: Connection, why: Error): void => {
    if (connection === old) connection = fresh();
    for (const fail of old.underWay) fail(why);
    // It may hang on the request that was given up; nothing waits for it.
    old.client.disconnect().catch(() => undefined);
  };

  const connected = (mine: Connection): Promise<void> => {
    mine.ready ??= mine.client.connect().catch((error) => {
      mine.ready = undefined;
      throw error;
    });
    return mine.ready;
  };

  /**
   * One try of one request. After `giveUpMs` the caller is told; the client is replaced only if
   * `isLast` or if it has been silent for too long.
   */
  const attempt = (chunk: Chunk, giveUpMs: number, replaces: boolean): Promise<void> => {
    const mine = connection;
    return new Promise<void>((resolve, reject) => {
      const done = (error?: unknown) => {
        if (!mine.underWay.delete(done)) return;
        clearTimeout(timer);
        isAvailable = error === undefined || classify(error) !== "transient";
        error === undefined ? resolve() : reject(error);
      };
      const waitMs = Math.min(giveUpMs, SILENCE_MS);
      const timer = setTimeout(() => {
        const why = new LogUnavailable();
        if (replaces || waitMs === SILENCE_MS) replace(mine, why);
        else done(why);
      }, waitMs);
      mine.underWay.add(done);
      connected(mine)
        .then(() => mine.client.sendBatch({ acks: -1, topicMessages: chunk.byTopic }))
        .then(() => done(), done);
    });
  };

  const unavailable = (error: unknown): unknown =>
    classify(error) === "transient" && !(error instanceof LogUnavailable) ? new LogUnavailable(error) : error;

  const send = async (messages: readonly OutputMessage[]): Promise<void> => {
    for (let at = 0; at < messages.length; ) {
      const chunk = new Chunk();
      while (at < messages.length && !chunk.isFull()) chunk.add(prefix, messages[at++]!);
      const end = performance.now() + sendDeadlineMs;
      // A request that is given up is cut off with its client: landing later it would stand behind
      // its own repetition.
      await retry(() => attempt(chunk, Math.max(1, end - performance.now()), true), {
        deadlineMs: sendDeadlineMs,
        maxMs: 1_000,
      }).catch((error) => {
        throw unavailable(error);
      });
    }
  };

  const queue: Waiting[] = [];
  let queued = 0;
  let waitingMessages = 0;
  let waitingBytes = 0;
  let inFlight = 0;
  let pumpIsDue = false;
  let whenTold: (() => void) | undefined;

  const deliver = async (chunk: Chunk, parts: ReadonlyMap<Waiting, number>): Promise<void> => {
    const isWanted = () => [...parts.keys()].some((part) => !part.isSettled);
    const last = Math.max(...[...parts.keys()].map((part) => part.deadline));
    try {
      await retry(() => attempt(chunk, SILENCE_MS, false), {
        deadlineMs: Math.max(1, last - performance.now()),
        maxMs: 500,
        isTransient: (error) => classify(error) === "transient" && isWanted(),
      });
      for (const [part, count] of parts) {
        part.unacknowledged -= count;
        if (part.unacknowledged === 0) part.settle();
      }
    } catch (error) {
      for (const part of parts.keys()) part.settle(unavailable(error));
    } finally {
      inFlight--;
      pump();
    }
  };

  /**
   * Takes what waits, oldest first. What is left of a call that has been settled is passed over.
   */
  const nextChunk = (): { chunk: Chunk; parts: Map<Waiting, number> } => {
    const chunk = new Chunk();
    const parts = new Map<Waiting, number>();
    let done = 0;
    for (const part of queue) {
      if (chunk.isFull()) break;
      const from = part.taken;
      if (!part.isSettled)
        while (part.taken < part.messages.length && !chunk.isFull()) chunk.add(prefix, part.messages[part.taken++]!);
      if (part.taken > from) parts.set(part, part.taken - from);
      if (!part.isSettled && part.taken < part.messages.length) break;
      done++;
    }
    queue.splice(0, done);
    queued -= chunk.count;
    return { chunk, parts };
  };

  /**
   * No fixed linger: what is there goes out when nothing is under way, else full chunks only; what
   * arrives meanwhile is merged.
   */
  const pump = (): void => {
    pumpIsDue = false;
    while (queue.length > 0 && inFlight < maxInFlight && (inFlight === 0 || queued >= CHUNK_MESSAGES)) {
      const { chunk, parts } = nextChunk();
      if (chunk.count === 0) continue;
      inFlight++;
      void deliver(chunk, parts);
    }
  };

  const publish = (messages: readonly OutputMessage[]): Promise<void> => {
    if (isClosed) return Promise.reject(new LogUnavailable(new Error("the producer is closed")));
    if (messages.length === 0) return Promise.resolve();
    let bytes = 0;
    for (const message of messages) bytes += sizeOf(message);
    // A single call of any size is taken when nothing waits: it could never be taken otherwise.
    if (
      waitingMessages > 0 &&
      (waitingMessages + messages.length > maxWaiting.messages || waitingBytes + bytes > maxWaiting.bytes)
    )
      return Promise.reject(new Overloaded());
    return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => part.settle(new LogUnavailable()), publishDeadlineMs);
      const part: Waiting = {
        messages,
        bytes,
        deadline: performance.now() + publishDeadlineMs,
        taken: 0,
        unacknowledged: messages.length,
        isSettled: false,
        settle: (error) => {
          if (part.isSettled) return;
          part.isSettled = true;
          clearTimeout(timer);
          waitingMessages -= messages.length;
          waitingBytes -= bytes;
          queued -= messages.length - part.taken;
          if (waitingMessages === 0) whenTold?.();
          if (error === undefined) return resolve();
          if (error instanceof LogUnavailable) isAvailable = false;
          reject(error);
        },
      };
      queue.push(part);
      queued += messages.length;
      waitingMessages += messages.length;
      waitingBytes += bytes;
      if (pumpIsDue) return;
      pumpIsDue = true;
      // After this turn of the loop, so that requests which arrived together share one send.
      setImmediate(pump);
    });
  };

  return {
    send,
    publish,
    isAvailable: () => isAvailable,
    waiting: () => ({ messages: waitingMessages, bytes: waitingBytes }),
    close: async () => {
      isClosed = true;
      if (waitingMessages > 0) await new Promise<void>((resolve) => (whenTold = resolve));
      // It may hang on a request that a log which stands still never answers, half a minute longer
      // than a process may take to end.
      const isGone = new AbortController();
      const late = systemClock.sleep(DISCONNECT_MS, isGone.signal).catch(() => undefined);
      await Promise.race([connection.client.disconnect(), late]).finally(() => isGone.abort());
    },
  };
};
