// Sends a recording to the pixel host in chunks, one at a time; sends again after a failure, and
// the rest when the page closes.
import { later } from "../guard.ts";
import type { Bridge } from "./begin.ts";

const CHUNK_MS = 5_000;
/** A browser still sends this much for a closing page. */
const CHUNK_BYTES = 55_000;
/**
 * The most that may wait for the host. A recording with a gap cannot be played, so it ends there.
 */
const MOST_BYTES = 2_000_000;
const LONGEST_PAUSE = 60_000;

export interface Chunks {
  /** Adds one event, as JSON. */
  readonly add: (json: string) => void;
  /** Hands everything that waits to the browser, as far as it takes it. */
  readonly leave: () => void;
  /** Drops everything that waits. */
  readonly drop: () => void;
}

/** Sends bodies in order, one at a time. Calls `end` when the host refuses one. */
const openBodies = ({ host, deliver, handOver, isOffline }: Bridge, end: () => void) => {
  let waiting: string[] = [];
  let isBusy = false;
  let failures = 0;

  const send = (): void => {
    const body = waiting[0];
    if (isBusy || body === undefined) return;
    isBusy = true;
    const next = (pause: number): void => {
      isBusy = false;
      later(pause, send);
    };
    if (isOffline()) next(CHUNK_MS);
    else
      deliver(host, body, [], (outcome) => {
        failures = outcome === "delivered" ? 0 : failures + 1;
        if (failures === 0) waiting = waiting.filter((one) => one !== body);
        if (outcome === "refused") end();
        else next(failures && Math.min(LONGEST_PAUSE, 1_000 * 2 ** failures));
      });
  };
  return {
    add: (body: string) => {
      waiting.push(body);
      if (waiting.join("").length > MOST_BYTES) end();
    },
    send,
    leave: () => {
      waiting = waiting.filter((body) => isOffline() || !handOver(host, body));
    },
    drop: () => {
      waiting = [];
    },
  };
};

/**
 * `bodyOf` writes a body around the events of a chunk, or returns null if they must not be sent.
 * `end` is called when the host refuses a chunk, or when too much waits for it.
 */
export const openChunks = (
  bridge: Bridge,
  bodyOf: (seq: number, events: string) => string | null,
  end: () => void,
): Chunks => {
  const bodies = openBodies(bridge, end);
  let events: string[] = [];
  let bytes = 0;
  let seq = 0;

  const close = (): void => {
    if (events.length === 0) return;
    const body = bodyOf(seq, `[${events.join()}]`);
    events = [];
    bytes = 0;
    if (body === null) return;
    seq += 1;
    bodies.add(body);
  };
  const closeAndSend = (): void => {
    close();
    bodies.send();
  };
  return {
    add: (json) => {
      if (events.length === 0) later(CHUNK_MS, closeAndSend);
      events.push(json);
      bytes += bridge.bytesOf(json);
      if (bytes >= CHUNK_BYTES) closeAndSend();
    },
    leave: () => {
      close();
      bodies.leave();
    },
    drop: () => {
      events = [];
      bodies.drop();
    },
  };
};
