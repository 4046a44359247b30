// Keeps events while the log is unreachable, on the edge's disk or else in object storage, and
// defines the order in which they leave.
import { Unavailable } from "../../../infra/runtime/errors.ts";
import { LockHeld } from "../../../infra/runtime/lock.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { LastResort } from "../../../infra/spool/last-resort.ts";
import type { Send } from "../../../infra/spool/sending.ts";
import { type Spool, SpoolFull } from "../../../infra/spool/spool.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";

/**
 * The kind of dead letter that an event would become (docs/design/contracts.md, "Dead letters").
 */
export type Kind = "clicks" | "pixel" | "s2s";

export interface PlaceParts {
  /** Throws Held while another process has the folder, and errors of the disk. */
  readonly openSpool: () => Promise<Spool>;
  readonly lastResort: LastResort;
  readonly log: Pick<Log, "error">;
}

/** Null: unknown, because the disk or object storage was not read yet. */
export interface WaitingEvents {
  readonly spooledEvents: number | null;
  readonly lastResortEvents: number | null;
  readonly oldestSec: number | null;
  /** Of the spool alone. */
  readonly byKind: Readonly<Record<Kind, number>> | null;
  /** Why the spool could not be opened; null if it is open. */
  readonly spoolProblem: string | null;
}

/** Above this share the spool refuses new events; the remainder is for requests in progress. */
const FULL = 0.8;
/**
 * After every place has refused, requests are refused for this long; the next ones then find out
 * whether a place accepts events again.
 */
const REFUSED_MS = 2_000;
/**
 * Bytes on their way to the disk or object storage. Beyond this senders are asked to retry, which
 * bounds memory while a place is slow.
 */
const MOST_UNDER_WAY = 64 * 1024 * 1024;

export const tooManyWait = () => new Unavailable("more events wait than may: send the same batch again", 2);
const nothingTakes = () => new Unavailable("events cannot be stored now: send the same batch again", 2);

/** Seconds since the earlier of two moments, as far as there are any. */
const ageOf = (a: UnixMs | undefined, b: UnixMs | undefined): number => {
  const oldest = Math.min(a ?? Number.POSITIVE_INFINITY, b ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(oldest) ? Math.max(0, Math.round((Date.now() - oldest) / 1_000)) : 0;
};

export class Places {
  readonly #parts: PlaceParts;
  readonly #onKept: () => void;
  #spool: Spool | undefined;
  #problem = "it was not opened yet";
  #isLooked = false;
  #refusedUntil = 0;
  #keptBytes = 0;
  /** Places that refuse. Each is logged once, until it accepts events again. */
  readonly #refusing = new Set<string>();

  constructor(parts: PlaceParts, onKept: () => void) {
    this.#parts = parts;
    this.#onKept = onKept;
  }

  /**
   * Opens the disk and reads what object storage holds, unless that is done already. Throws Held.
   */
  async open(): Promise<void> {
    await this.openDisk();
    if (this.#isLooked) return;
    try {
      await this.#parts.lastResort.look();
      this.#isLooked = true;
    } catch (error) {
      this.#refuses("last_resort", error, "last_resort.not_read");
    }
  }

  async openDisk(): Promise<void> {
    if (this.#spool !== undefined) return;
    try {
      this.#spool = await this.#parts.openSpool();
    } catch (error) {
      this.#problem = (error as Error).message;
      if (error instanceof LockHeld) throw error;
      this.#refuses("spool", error, "spool.not_read");
    }
  }

  /** False while events of before may lie on the disk, which newer ones must not overtake. */
  get isRead(): boolean {
    return this.#spool !== undefined;
  }

  get isOpen(): boolean {
    return this.#spool !== undefined && this.#isLooked;
  }

  /** The number of waiting events. */
  get count(): number {
    return (this.#spool?.state().messages ?? 0) + this.#parts.lastResort.held().messages;
  }

  /** True if object storage holds events, as far as it was read. */
  get hasObjects(): boolean {
    return this.#parts.lastResort.held().messages > 0;
  }

  get isRefusing(): boolean {
    return performance.now() < this.#refusedUntil;
  }

  expectRoom(): void {
    if (this.isRefusing) throw nothingTakes();
  }

  /** Resolves once the events are durable. Throws Unavailable when no place accepts them. */
  async keep(messages: readonly OutputMessage[], kind: Kind): Promise<void> {
    const bytes = messages.reduce((sum, { key, value }) => sum + (key?.length ?? 0) + (value?.length ?? 0), 0);
    // A call of any size is accepted while nothing else is in progress, since it could never be
    // accepted otherwise.
    if (this.#keptBytes > 0 && this.#keptBytes + bytes > MOST_UNDER_WAY) throw tooManyWait();
    this.#keptBytes += bytes;
    try {
      await this.#keepSomewhere(messages, kind);
    } finally {
      this.#keptBytes -= bytes;
    }
  }

  /**
   * Sends some waiting events, those on the disk before those in object storage. Returns how many.
   */
  async sendSome(send: Send): Promise<number> {
    return (await this.#spool?.drain(send)) || (await this.#parts.lastResort.drain(send));
  }

  /** Clears the refusals: the log accepts events again. */
  emptied(): void {
    this.#refusedUntil = 0;
  }

  waiting(): WaitingEvents {
    const disk = this.#spool?.state();
    const objects = this.#parts.lastResort.held();
    return {
      spooledEvents: disk?.messages ?? null,
      lastResortEvents: this.#isLooked ? objects.messages : null,
      oldestSec: disk === undefined || !this.#isLooked ? null : ageOf(disk.oldestAt, objects.oldestAt),
      byKind: disk === undefined ? null : { clicks: 0, pixel: 0, s2s: 0, ...disk.byLabel },
      spoolProblem: disk === undefined ? this.#problem : null,
    };
  }

  async close(): Promise<void> {
    await this.#spool?.close();
  }

  async #keepSomewhere(messages: readonly OutputMessage[], kind: Kind): Promise<void> {
    const { lastResort } = this.#parts;
    const inObjects = { name: "last_resort", put: () => lastResort.put(messages, kind) };
    const onDisk = { name: "spool", put: () => this.#toDisk(messages, kind) };
    // Events in object storage are sent after those on the disk: while there are any, newer events
    // of a device must not overtake them.
    for (const place of lastResort.held().messages > 0 ? [inObjects, onDisk] : [onDisk, inObjects]) {
      try {
        await place.put();
        this.#refusing.delete(place.name);
        this.#refusedUntil = 0;
        this.#onKept();
        return;
      } catch (error) {
        this.#refuses(place.name, error);
      }
    }
    this.#refusedUntil = performance.now() + REFUSED_MS;
    throw nothingTakes();
  }

  async #toDisk(messages: readonly OutputMessage[], kind: Kind): Promise<void> {
    if (this.#spool === undefined) throw new Error(`the spool is not open: ${this.#problem}`);
    if (this.#spool.state().fill >= FULL) throw new SpoolFull();
    await this.#spool.append(messages, kind);
  }

  #refuses(place: string, error: unknown, event = `${place}.not_written`): void {
    if (!this.#refusing.has(place)) this.#parts.log.error(event, { error });
    this.#refusing.add(place);
  }
}
