// Stores an edge's events before it answers: in the log, else on its own disk, else in object
// storage. Later moves them from there into the log.
import { setTimeout as sleep } from "node:timers/promises";
import { lacksSchemaId } from "../../../infra/avro/record-wire.ts";
import { Overloaded } from "../../../infra/kafka/producer.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import { aroundRefused, type Send, type SetAside } from "../../../infra/spool/sending.ts";
import type { OutputMessage, Produce } from "../../../stream/messages.ts";
import { type Kind, type PlaceParts, Places, tooManyWait, type WaitingEvents } from "./places.ts";

/**
 * Named after the place that still works: the log; the spool on the disk; only object storage, or
 * nothing.
 */
export type PathName = "primary" | "standby" | "both_down";

export interface PathParts extends PlaceParts {
  /** Appends to the log, or rejects within 2 s. */
  readonly publish: Produce;
  /** Handles a record that `publish` refused for good; `send` has its own handler. */
  readonly setAside: SetAside;
  /** Appends to the log in order and awaits it, with as many tries as it takes. */
  readonly send: Send;
  /** Rejects while the log does not accept a record. */
  readonly probe: () => Promise<void>;
  /** False until the schema ids are resolved: until then nothing can go into the log directly. */
  readonly isNamed: () => boolean;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

/** The state of this process, with the events that wait on its disk and in object storage. */
export interface PathState extends WaitingEvents {
  readonly path: PathName;
  readonly active: boolean;
}

export interface Path {
  /**
   * Resolves once the events are durable in one of the places. Throws Unavailable when no place
   * accepts them.
   */
  readonly store: (messages: readonly OutputMessage[], kind: Kind) => Promise<void>;
  /** Throws Unavailable while nothing can be stored. Call it before a body is read. */
  readonly expectRoom: () => void;
  readonly state: () => PathState;
}

const PAUSE_MS = 1_000;
/**
 * With this few events left to drain, new events wait some milliseconds for them and then go into
 * the log directly.
 */
const NEARLY_DONE = 2_000;

/**
 * The order of durable effects: an event is acknowledged by the log, or synced to the disk, or put
 * into object storage; then its sender is answered. After a crash before the answer the sender
 * sends again, with the same ids. A record that timed out may be in the log all the same; stored
 * here as well, it still counts once.
 * While anything waits on the disk, new events go there too, which keeps the order of a device. The
 * disk is drained before object storage. While the disk could not be read, nothing goes into the
 * log: new events wait in object storage. Throws Held.
 */
export const openPath = async (parts: PathParts): Promise<Resource<Path>> => {
  const publish = aroundRefused(parts.publish, parts.setAside);
  let drainer: Drainer | undefined;
  const places = new Places(parts, () => drainer?.wake());
  await places.openDisk();
  const draining = new Drainer(parts, places);
  drainer = draining;
  const running = draining.run();

  const store: Path["store"] = async (messages, kind) => {
    if (messages.length === 0) return;
    const { gate } = draining;
    if (gate !== undefined) await gate;
    if (!places.isRead) draining.begin(new Error("what waits in the spool is unknown"));
    // The schema ids may have been resolved after these messages were encoded without them. Such
    // messages go through the disk, where they get their ids.
    if (places.isRead && places.count === 0 && parts.isNamed() && !messages.some(({ value }) => lacksSchemaId(value))) {
      try {
        return await publish(messages);
      } catch (error) {
        if (error instanceof Overloaded) throw tooManyWait();
        draining.begin(error);
      }
    }
    await places.keep(messages, kind);
  };
  return {
    value: { store, state: () => stateOf(places, parts), expectRoom: () => places.expectRoom() },
    stop: async () => {
      draining.end();
      await running;
      await places.close();
    },
  };
};

const stateOf = (places: Places, { isNamed }: Pick<PathParts, "isNamed">): PathState => {
  const waiting = places.waiting();
  const isBothDown = places.hasObjects || places.isRefusing;
  const path = isBothDown ? "both_down" : waiting.spooledEvents !== 0 || !isNamed() ? "standby" : "primary";
  return { path, active: path !== "primary", ...waiting };
};

/** Drains waiting events into the log, and holds new events back while the last ones are sent. */
class Drainer {
  readonly #parts: PathParts;
  readonly #places: Places;
  readonly #closing = new AbortController();
  #began: number | undefined;
  #gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined;
  #wake: () => void = () => undefined;

  constructor(parts: PathParts, places: Places) {
    this.#parts = parts;
    this.#places = places;
  }

  /** Resolves when new events need not wait for earlier ones. */
  get gate(): Promise<void> | undefined {
    return this.#gate?.opened;
  }

  /** Marks the start of a failover: the log did not accept events. */
  begin(error: unknown): void {
    if (this.#began !== undefined) return;
    this.#began = performance.now();
    this.#parts.log.warn("failover.began", { error });
  }

  wake(): void {
    this.#wake();
  }

  end(): void {
    this.#closing.abort();
    this.#wake();
    this.#release();
  }

  async run(): Promise<void> {
    const { signal } = this.#closing;
    let isTold = false;
    while (!signal.aborted) {
      try {
        await this.#once();
        isTold = false;
        if (this.#places.count === 0 && this.#places.isOpen && !signal.aborted)
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      } catch (error) {
        if (!isTold) this.#parts.log.warn("drain.waits", { error });
        isTold = true;
      }
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #once(): Promise<void> {
    await this.#places.open();
    if (!this.#places.isRead || this.#places.count === 0) return;
    await this.#parts.probe();
    const sent = await this.#drain();
    if (this.#closing.signal.aborted) return;
    const seconds = this.#began === undefined ? null : Math.round((performance.now() - this.#began) / 1_000);
    this.#parts.log.info("failover.ended", { sent, seconds });
    this.#began = undefined;
    this.#places.emptied();
  }

  /** Runs until nothing waits here any more. */
  async #drain(): Promise<number> {
    let sent = 0;
    try {
      while (this.#places.count > 0 && !this.#closing.signal.aborted) {
        if (this.#places.count <= NEARLY_DONE) this.#shut();
        const some = await this.#places.sendSome(this.#parts.send);
        sent += some;
        // The remaining events are being written at this moment.
        if (some === 0) await sleep(2);
      }
      return sent;
    } finally {
      this.#release();
    }
  }

  #shut(): void {
    if (this.#gate !== undefined) return;
    let open: () => void = () => undefined;
    this.#gate = { opened: new Promise((resolve) => (open = resolve)), open };
  }

  #release(): void {
    this.#gate?.open();
    this.#gate = undefined;
  }
}
