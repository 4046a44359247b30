// Requests of a producer: how much one of them may hold, and a client that is replaced when it is
// silent.
import type { OutputMessage } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";
import { systemClock } from "../runtime/timing/retry.ts";
import { timeLimit } from "../runtime/timing/time-limit.ts";
import type { ClientMessage, ClientProducer } from "./client/types.ts";
import { LogUnavailable } from "./errors.ts";

// The client groups a send by partition in quadratic time: 500-1,000 messages cost it 0.45 us each,
// 10,000 cost 6.
export const CHUNK_MESSAGES = 1_000;
// A quarter of message.max.bytes (16 MiB), so that one record of the largest size an edge takes (1
// MiB) always fits beside its chunk.
const CHUNK_BYTES = 4 * 1024 * 1024;
const DISCONNECT_MS = 1_000;
// The client keeps a half-open socket after a timeout (infra/kafka/README.md K18).
export const SILENCE_MS = 30_000;

type TopicMessages = { topic: string; messages: ClientMessage[] };

/** Messages of one request, grouped by topic, order kept inside each. */
export class Chunk {
  readonly byTopic: TopicMessages[] = [];
  count = 0;
  bytes = 0;
  #topic: string | undefined;
  #group: TopicMessages | undefined;

  isFull(): boolean {
    return this.count >= CHUNK_MESSAGES || this.bytes >= CHUNK_BYTES;
  }

  /** Whether so much may be added; anything may be to an empty one. */
  takes(count: number, bytes: number): boolean {
    return this.count === 0 || (this.count + count <= CHUNK_MESSAGES && this.bytes + bytes <= CHUNK_BYTES);
  }

  add(prefix: string, message: OutputMessage): void {
    // Nearly always the topic of the previous message.
    const group = message.topic === this.#topic ? this.#group! : this.#groupOf(prefix, message.topic);
    const key = typeof message.key === "string" ? Buffer.from(message.key) : message.key;
    group.messages.push(
      message.headers === undefined
        ? { key, value: message.value }
        : { key, value: message.value, headers: message.headers },
    );
    this.count++;
    this.bytes += sizeOf(message);
  }

  #groupOf(prefix: string, name: string): TopicMessages {
    const topic = prefix + name;
    let group = this.byTopic.find((each) => each.topic === topic);
    if (group === undefined) {
      group = { topic, messages: [] };
      this.byTopic.push(group);
    }
    this.#topic = name;
    this.#group = group;
    return group;
  }
}

export const sizeOf = ({ key, value }: OutputMessage): number => (key?.length ?? 0) + (value?.length ?? 0);

/** One client and its requests under way; all of them fail at once when the client is replaced. */
interface Connection {
  readonly client: ClientProducer;
  readonly underWay: Set<(error: Error) => void>;
  ready: Promise<void> | undefined;
}

export const unavailable = (error: unknown): unknown =>
  classify(error) === "transient" && !(error instanceof LogUnavailable) ? new LogUnavailable(error) : error;

export class Requests {
  /** False from the first failure until the next acknowledgement. */
  isAvailable = true;
  readonly #newClient: () => ClientProducer;
  #connection: Connection;

  constructor(newClient: () => ClientProducer) {
    this.#newClient = newClient;
    this.#connection = this.#fresh();
  }

  /**
   * Tries a request once. After `giveUpMs` the caller gets an error; the client is replaced only if
   * `replaces` or if it has been silent for too long.
   */
  attempt(chunk: Chunk, giveUpMs: number, replaces: boolean): Promise<void> {
    const mine = this.#connection;
    return new Promise<void>((resolve, reject) => {
      const done = (error?: unknown) => {
        if (!mine.underWay.delete(done)) return;
        clearTimeout(timer);
        this.isAvailable = error === undefined || classify(error) !== "transient";
        error === undefined ? resolve() : reject(error);
      };
      const waitMs = Math.min(giveUpMs, SILENCE_MS);
      const timer = timeLimit(waitMs, () => {
        if (!mine.underWay.has(done)) return;
        const why = new LogUnavailable();
        if (replaces || waitMs === SILENCE_MS) this.#replace(mine, why);
        else done(why);
      });
      mine.underWay.add(done);
      connected(mine)
        .then(() => mine.client.sendBatch({ acks: -1, topicMessages: chunk.byTopic }))
        .then(() => done(), done);
    });
  }

  /**
   * Disconnecting may hang on a request that a hanging log never answers, half a minute longer than
   * a process may take to end (infra/kafka/README.md K19).
   */
  async close(): Promise<void> {
    const isGone = new AbortController();
    const late = systemClock.sleep(DISCONNECT_MS, isGone.signal).catch(() => undefined);
    await Promise.race([this.#connection.client.disconnect(), late]).finally(() => isGone.abort());
  }

  #fresh(): Connection {
    return { client: this.#newClient(), underWay: new Set(), ready: undefined };
  }

  #replace(old: Connection, why: Error): void {
    if (this.#connection === old) this.#connection = this.#fresh();
    for (const fail of old.underWay) fail(why);
    // Disconnecting may hang on the request that was given up; nothing waits for it.
    old.client.disconnect().catch(() => undefined);
  }
}

const connected = (mine: Connection): Promise<void> => {
  mine.ready ??= mine.client.connect().catch((error) => {
    mine.ready = undefined;
    throw error;
  });
  return mine.ready;
};
