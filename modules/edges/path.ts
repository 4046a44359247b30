// Where an edge's events are stored before it answers: in the log, else on its own disk, else in
// object storage; and how they get from there into the log.
import { setTimeout as sleep } from "node:timers/promises";
import { lacksSchemaId } from "../../infra/avro/wire.ts";
import { Overloaded } from "../../infra/kafka/kafka.ts";
import { classify, Unavailable } from "../../infra/runtime/errors.ts";
import { Held } from "../../infra/runtime/lock.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { Resource } from "../../infra/runtime/scope.ts";
import type { LastResort, Send } from "../../infra/spool/last-resort.ts";
import { type Spool, SpoolFull } from "../../infra/spool/spool.ts";
import type { OutputMessage, Produce } from "../../stream/messages.ts";

/** Whose dead letters an event would be (docs/design/contracts.md, "Dead letters"). */
export type Kind = "clicks" | "pixel" | "s2s";
/**
 * In the order of what is left: the log; the spool on the disk; object storage alone, or nothing.
 */
export type PathName = "primary" | "standby" | "both_down";

export interface PathParts {
  /** Into the log, or rejected within 2 s. */
  readonly publish: Produce;
  /** Into the log in order, awaited, however often it must be tried. */
  readonly send: Send;
  /** Rejects while the log does not take a record. */
  readonly probe: () => Promise<void>;
  /** False while schema ids are not known: then nothing can go into the log directly. */
  readonly isNamed: () => boolean;
  /** Throws Held while another process has the folder, or what the disk says. */
  readonly openSpool: () => Promise<Spool>;
  readonly lastResort: LastResort;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

export interface PathState {
  readonly path: PathName;
  readonly active: boolean;
  /** Of this process: on its disk, and what of them is put into object storage. */
  readonly spooledEvents: number;
  readonly lastResortEvents: number;
  readonly oldestSec: number;
  readonly byKind: Readonly<Record<Kind, number>>;
}

export interface Path {
  /**
   * Resolves once the events are stored for good, somewhere. Throws Unavailable
   * when no place takes them.
   */
  readonly store: (messages: readonly OutputMessage[], kind: Kind) => Promise<void>;
  /** Throws Unavailable while nothing can be stored: to be asked before a body is read. */
  readonly expectRoom: () => void;
  readonly state: () => PathState;
}

/** Above it the spool is as good as full: the rest is for requests that are under way. */
const FULL = 0.8;
/**
 * After every place has refused, one volley of requests finds out whether one takes events again.
 */
const REFUSED_MS = 2_000;
const PAUSE_MS = 1_000;
/**
 * On their way to the disk or to object storage: senders beyond it come again, so that a slow place
 * costs no memory without end.
 */
const MOST_UNDER_WAY = 64 * 1024 * 1024;
/**
 * When this little is left new events wait for it, some milliseconds, and then go into the log
 * directly.
 */
const NEARLY_DONE = 2_000;

/**
 * Order of durable effects: an event is acknowledged by the log, or synced on the disk, or put into
 * object storage; then its sender is answered. Killed before that the sender sends again, the same
 * ids. What timed out on its way to the log may be in it: stored here as well, it counts once all
 * the same.
 *
 * While anything waits on the disk new events go there too, so that the order of a device holds;
 * the disk is drained before object storage. Throws Held.
 */
export const openPath = async (parts: PathParts): Promise<Resource<Path>> => {
  const { publish, lastResort, log } = parts;
  const closing = new AbortController();
  let spool: Spool | undefined;
  let refusedUntil = 0;
  let keptBytes = 0;
  let began: { readonly at: number; readonly error: unknown } | undefined;
  /** Places that refuse: told once, until they take events again. */
  const refusing = new Set<string>();
  const tell = (place: string, error: unknown): void => {
    if (!refusing.has(place)) log.error(`${place}.not_written`, { error });
    refusing.add(place);
  };
  let gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined;
  let wake: () => void = () => undefined;

  const openDisk = async (): Promise<void> => {
    try {
      spool = await parts.openSpool();
    } catch (error) {
      if (error instanceof Held) throw error;
      tell("spool", error);
    }
  };
  await openDisk();
  let isLooked = false;
  const waitingHere = (): number => (spool?.state().messages ?? 0) + lastResort.held().messages;

  const toDisk = async (messages: readonly OutputMessage[], kind: Kind): Promise<void> => {
    if (spool === undefined) throw new Error("the spool is not open");
    if (spool.state().fill >= FULL) throw new SpoolFull();
    await spool.append(messages, kind);
  };
  const keepSomewhere = async (messages: readonly OutputMessage[], kind: Kind): Promise<void> => {
    const inObjects = { name: "last_resort", put: () => lastResort.put(messages, kind) };
    const onDisk = { name: "spool", put: () => toDisk(messages, kind) };
    // What is in object storage is sent after what is on the disk: while it holds anything, newer
    // events of a device must not overtake it.
    for (const place of lastResort.held().messages > 0 ? [inObjects, onDisk] : [onDisk, inObjects]) {
      try {
        await place.put();
        refusing.delete(place.name);
        refusedUntil = 0;
        wake();
        return;
      } catch (error) {
        tell(place.name, error);
      }
    }
    refusedUntil = performance.now() + REFUSED_MS;
    throw nothingTakes();
  };
  const keep = async (messages: readonly OutputMessage[], kind: Kind): Promise<void> => {
    const bytes = messages.reduce((sum, { key, value }) => sum + (key?.length ?? 0) + (value?.length ?? 0), 0);
    // A single call of any size is taken when nothing is under way: it could never be taken
    // otherwise.
    if (keptBytes > 0 && keptBytes + bytes > MOST_UNDER_WAY) throw tooManyWait();
    keptBytes += bytes;
    try {
      await keepSomewhere(messages, kind);
    } finally {
      keptBytes -= bytes;
    }
  };

  const store: Path["store"] = async (messages, kind) => {
    if (messages.length === 0) return;
    await gate?.opened;
    // The ids may have become known since these were encoded, while they waited here: what has none
    // gets it on its way from the disk.
    if (waitingHere() === 0 && parts.isNamed() && !messages.some(({ value }) => lacksSchemaId(value))) {
      try {
        return await publish(messages);
      } catch (error) {
        if (error instanceof Overloaded) throw tooManyWait();
        if (classify(error) === "data") {
          log.error("batch.not_stored", { error });
          throw new Unavailable("events cannot be stored now: send the same batch again", 2);
        }
        if (began === undefined) {
          began = { at: performance.now(), error };
          log.warn("failover.began", { error });
        }
      }
    }
    await keep(messages, kind);
  };

  const shut = (): void => {
    if (gate !== undefined) return;
    let open: () => void = () => undefined;
    gate = { opened: new Promise((resolve) => (open = resolve)), open };
  };
  const release = (): void => {
    gate?.open();
    gate = undefined;
  };
  /** Until nothing waits here any more. */
  const drain = async (): Promise<number> => {
    let sent = 0;
    try {
      while (waitingHere() > 0 && !closing.signal.aborted) {
        if (waitingHere() <= NEARLY_DONE) shut();
        const some = (await spool?.drain(parts.send)) || (await lastResort.drain(parts.send));
        sent += some;
        // What is left is just being written.
        if (some === 0) await sleep(2);
      }
      return sent;
    } finally {
      release();
    }
  };
  const once = async (): Promise<void> => {
    if (spool === undefined) await openDisk();
    if (!isLooked)
      await lastResort.look().then(
        () => (isLooked = true),
        (error) => tell("last_resort", error),
      );
    if (waitingHere() === 0) return;
    await parts.probe();
    const sent = await drain();
    if (closing.signal.aborted) return;
    log.info("failover.ended", {
      sent,
      seconds: began === undefined ? null : Math.round((performance.now() - began.at) / 1_000),
    });
    began = undefined;
    refusedUntil = 0;
  };
  const going = (async () => {
    let isTold = false;
    while (!closing.signal.aborted) {
      try {
        await once();
        isTold = false;
        if (waitingHere() === 0 && spool !== undefined && isLooked && !closing.signal.aborted)
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      } catch (error) {
        if (!isTold) log.warn("drain.waits", { error });
        isTold = true;
      }
      await sleep(PAUSE_MS, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  })();

  const state = (): PathState => {
    const disk = spool?.state();
    const objects = lastResort.held();
    const isRefusing = performance.now() < refusedUntil;
    const oldest = Math.min(disk?.oldestAt ?? Number.POSITIVE_INFINITY, objects.oldestAt ?? Number.POSITIVE_INFINITY);
    const path =
      objects.messages > 0 || isRefusing
        ? "both_down"
        : (disk?.messages ?? 0) > 0 || !parts.isNamed()
          ? "standby"
          : "primary";
    return {
      path,
      active: path !== "primary",
      spooledEvents: disk?.messages ?? 0,
      lastResortEvents: objects.messages,
      oldestSec: Number.isFinite(oldest) ? Math.max(0, Math.round((Date.now() - oldest) / 1_000)) : 0,
      byKind: { clicks: 0, pixel: 0, s2s: 0, ...disk?.byLabel },
    };
  };

  return {
    value: {
      store,
      state,
      expectRoom: () => {
        if (performance.now() < refusedUntil) throw nothingTakes();
      },
    },
    stop: async () => {
      closing.abort();
      wake();
      release();
      await going;
      await spool?.close();
    },
  };
};

const tooManyWait = () => new Unavailable("more events wait than may: send the same batch again", 2);
const nothingTakes = () => new Unavailable("events cannot be stored now: send the same batch again", 2);
