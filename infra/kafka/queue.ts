// Gathers what callers publish at the same time into shared requests, and bounds what may wait.
import type { OutputMessage } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import { LogUnavailable, Overloaded } from "./errors.ts";
import { CHUNK_MESSAGES, Chunk, type Requests, SILENCE_MS, sizeOf, unavailable } from "./requests.ts";

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

export interface QueueSettings {
  readonly deadlineMs: number;
  readonly maxWaiting: { readonly messages: number; readonly bytes: number };
  readonly maxInFlight: number;
}

export class Queue {
  readonly #requests: Requests;
  readonly #prefix: string;
  readonly #settings: QueueSettings;
  readonly #queue: Waiting[] = [];
  #queued = 0;
  #waitingMessages = 0;
  #waitingBytes = 0;
  #inFlight = 0;
  #pumpIsDue = false;
  #isClosed = false;
  #whenEmpty: (() => void) | undefined;

  constructor(requests: Requests, prefix: string, settings: QueueSettings) {
    this.#requests = requests;
    this.#prefix = prefix;
    this.#settings = settings;
  }

  waiting(): { readonly messages: number; readonly bytes: number } {
    return { messages: this.#waitingMessages, bytes: this.#waitingBytes };
  }

  publish(messages: readonly OutputMessage[]): Promise<void> {
    if (this.#isClosed) return Promise.reject(new LogUnavailable(new Error("the producer is closed")));
    if (messages.length === 0) return Promise.resolve();
    let bytes = 0;
    for (const message of messages) bytes += sizeOf(message);
    const { maxWaiting } = this.#settings;
    // A single call of any size is taken when nothing waits: it could never be taken otherwise.
    if (
      this.#waitingMessages > 0 &&
      (this.#waitingMessages + messages.length > maxWaiting.messages || this.#waitingBytes + bytes > maxWaiting.bytes)
    )
      return Promise.reject(new Overloaded());
    // While no request comes back nothing else takes them out, and they hold their messages.
    while (this.#queue[0]?.isSettled) this.#queue.shift();
    return new Promise<void>((resolve, reject) => {
      this.#queue.push(this.#partOf(messages, bytes, resolve, reject));
      this.#queued += messages.length;
      this.#waitingMessages += messages.length;
      this.#waitingBytes += bytes;
      if (this.#pumpIsDue) return;
      this.#pumpIsDue = true;
      // After this turn of the loop, so that requests which arrived together share one send.
      setImmediate(() => this.#pump());
    });
  }

  /** Takes nothing more; resolves when every caller has its answer. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#waitingMessages > 0) await new Promise<void>((resolve) => (this.#whenEmpty = resolve));
  }

  #partOf(
    messages: readonly OutputMessage[],
    bytes: number,
    resolve: () => void,
    reject: (error: unknown) => void,
  ): Waiting {
    const { deadlineMs } = this.#settings;
    const timer = setTimeout(() => part.settle(new LogUnavailable()), deadlineMs);
    const part: Waiting = {
      messages,
      bytes,
      deadline: performance.now() + deadlineMs,
      taken: 0,
      unacknowledged: messages.length,
      isSettled: false,
      settle: (error) => {
        if (part.isSettled) return;
        part.isSettled = true;
        clearTimeout(timer);
        this.#waitingMessages -= messages.length;
        this.#waitingBytes -= bytes;
        this.#queued -= messages.length - part.taken;
        if (this.#waitingMessages === 0) this.#whenEmpty?.();
        if (error === undefined) return resolve();
        if (error instanceof LogUnavailable) this.#requests.isAvailable = false;
        reject(error);
      },
    };
    return part;
  }

  /**
   * No fixed linger: what is there goes out when nothing is under way, else full chunks only; what
   * arrives meanwhile is merged.
   */
  #pump(): void {
    this.#pumpIsDue = false;
    const { maxInFlight } = this.#settings;
    while (
      this.#queue.length > 0 &&
      this.#inFlight < maxInFlight &&
      (this.#inFlight === 0 || this.#queued >= CHUNK_MESSAGES)
    ) {
      const { chunk, parts } = this.#nextChunk();
      if (chunk.count === 0) continue;
      this.#inFlight++;
      void this.#deliver(chunk, parts);
    }
  }

  /**
   * Takes what waits, oldest first. What is left of a call that has been settled is passed over.
   */
  #nextChunk(): { chunk: Chunk; parts: Map<Waiting, number> } {
    const chunk = new Chunk();
    const parts = new Map<Waiting, number>();
    let done = 0;
    for (const part of this.#queue) {
      if (chunk.isFull()) break;
      const from = part.taken;
      if (!part.isSettled)
        while (part.taken < part.messages.length && !chunk.isFull())
          chunk.add(this.#prefix, part.messages[part.taken++]!);
      if (part.taken > from) parts.set(part, part.taken - from);
      if (!part.isSettled && part.taken < part.messages.length) break;
      done++;
    }
    this.#queue.splice(0, done);
    this.#queued -= chunk.count;
    return { chunk, parts };
  }

  async #deliver(chunk: Chunk, parts: ReadonlyMap<Waiting, number>): Promise<void> {
    const isWanted = () => [...parts.keys()].some((part) => !part.isSettled);
    const last = Math.max(...[...parts.keys()].map((part) => part.deadline));
    try {
      await retry(() => this.#requests.attempt(chunk, SILENCE_MS, false), {
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
      this.#inFlight--;
      this.#pump();
    }
  }
}
