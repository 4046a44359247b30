// Gathers the messages that callers publish at the same time into shared requests, and bounds how
// many may wait.
import type { OutputMessage } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";
import { retry } from "../runtime/timing/retry.ts";
import { LinkedList, type ListLinks } from "../runtime/timing/under-way.ts";
import { LogUnavailable, Overloaded } from "./errors.ts";
import { CHUNK_MESSAGES, Chunk, type Requests, SILENCE_MS, sizeOf, unavailable } from "./requests.ts";

/** Part of a publish call: the call is done when all of its messages are acknowledged. */
interface QueuedPublish extends ListLinks<QueuedPublish> {
  readonly messages: readonly OutputMessage[];
  readonly bytes: number;
  readonly deadline: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  taken: number;
  unacknowledged: number;
  isSettled: boolean;
}

/** A part of a call in a request, and how many messages it has. */
interface Part {
  readonly of: QueuedPublish;
  readonly count: number;
}

const isUnderWay = ({ messages, taken, unacknowledged }: QueuedPublish): boolean =>
  taken + unacknowledged > messages.length;

export interface QueueSettings {
  readonly deadlineMs: number;
  readonly maxWaiting: { readonly messages: number; readonly bytes: number };
  readonly maxInFlight: number;
}

export class Queue {
  readonly #requests: Requests;
  readonly #prefix: string;
  readonly #settings: QueueSettings;
  readonly #queue: QueuedPublish[] = [];
  /** Every call that has no answer yet, the earliest deadline first. */
  readonly #open = new LinkedList<QueuedPublish>();
  /**
   * One timer for all calls: nearly every call is answered long before its own timer would ring.
   */
  #alarm: NodeJS.Timeout | undefined;
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
    // A call of any size is accepted while nothing waits, since it could never be accepted
    // otherwise.
    if (
      this.#waitingMessages > 0 &&
      (this.#waitingMessages + messages.length > maxWaiting.messages || this.#waitingBytes + bytes > maxWaiting.bytes)
    )
      return Promise.reject(new Overloaded());
    // While no request comes back, nothing else removes settled calls, and they hold their
    // messages.
    while (this.#queue[0]?.isSettled) this.#queue.shift();
    return new Promise<void>((resolve, reject) => {
      const part: QueuedPublish = {
        messages,
        bytes,
        deadline: performance.now() + this.#settings.deadlineMs,
        resolve,
        reject,
        taken: 0,
        unacknowledged: messages.length,
        isSettled: false,
        before: undefined,
        behind: undefined,
      };
      this.#queue.push(part);
      this.#open.add(part);
      this.#alarm ??= setTimeout(() => this.#expire(), this.#settings.deadlineMs);
      this.#queued += messages.length;
      this.#waitingMessages += messages.length;
      this.#waitingBytes += bytes;
      if (this.#pumpIsDue) return;
      this.#pumpIsDue = true;
      // Sends after this turn of the loop, so that requests which arrived together share one send.
      setImmediate(() => this.#pump());
    });
  }

  /** Accepts nothing more; resolves when every caller has its answer. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#waitingMessages > 0) await new Promise<void>((resolve) => (this.#whenEmpty = resolve));
    clearTimeout(this.#alarm);
  }

  #settle(part: QueuedPublish, error?: unknown): void {
    if (part.isSettled) return;
    part.isSettled = true;
    this.#open.remove(part);
    this.#waitingMessages -= part.messages.length;
    this.#waitingBytes -= part.bytes;
    this.#queued -= part.messages.length - part.taken;
    if (this.#waitingMessages === 0) this.#whenEmpty?.();
    if (error instanceof LogUnavailable) this.#requests.isAvailable = false;
    if (error === undefined) part.resolve();
    else part.reject(error);
  }

  /** Answers the calls whose time is over, and sets the timer for the next one. */
  #expire(): void {
    this.#alarm = undefined;
    const now = performance.now();
    for (const part of this.#open) {
      if (part.deadline > now) {
        this.#alarm = setTimeout(() => this.#expire(), Math.ceil(part.deadline - now));
        return;
      }
      this.#settle(part, new LogUnavailable());
    }
  }

  /**
   * There is no fixed delay: waiting messages go out at once when no request is under way, and
   * otherwise in full chunks only. Messages that arrive meanwhile are merged.
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
      if (chunk.count === 0) break;
      this.#inFlight++;
      void this.#deliver(chunk, parts);
    }
  }

  /**
   * Takes waiting messages, oldest first. The rest of a settled call is skipped. A request that
   * fails is repeated while others are under way, so no two of them have messages of one call: a
   * call that fits into a request is not cut, and the rest of a larger one waits for its beginning.
   */
  #nextChunk(): { readonly chunk: Chunk; readonly parts: readonly Part[] } {
    const chunk = new Chunk();
    const parts: Part[] = [];
    let done = 0;
    for (const part of this.#queue) {
      if (chunk.isFull()) break;
      const from = part.taken;
      if (!part.isSettled && (isUnderWay(part) || !chunk.takes(part.messages.length, part.bytes))) break;
      if (!part.isSettled)
        while (part.taken < part.messages.length && !chunk.isFull())
          chunk.add(this.#prefix, part.messages[part.taken++]!);
      if (part.taken > from) parts.push({ of: part, count: part.taken - from });
      if (!part.isSettled && part.taken < part.messages.length) break;
      done++;
    }
    this.#queue.splice(0, done);
    this.#queued -= chunk.count;
    return { chunk, parts };
  }

  async #deliver(chunk: Chunk, parts: readonly Part[]): Promise<void> {
    const isWanted = () => parts.some(({ of }) => !of.isSettled);
    // Calls are taken in the order of their deadlines.
    const last = parts.at(-1)!.of.deadline;
    try {
      await retry(() => this.#requests.attempt(chunk, SILENCE_MS, false), {
        deadlineMs: Math.max(1, last - performance.now()),
        maxMs: 500,
        isTransient: (error) => classify(error) === "transient" && isWanted(),
      });
      for (const { of, count } of parts) {
        of.unacknowledged -= count;
        if (of.unacknowledged === 0) this.#settle(of);
      }
    } catch (error) {
      for (const { of } of parts) this.#settle(of, unavailable(error));
    } finally {
      this.#inFlight--;
      this.#pump();
    }
  }
}
