// Sends events to the pixel host in batches, one at a time; sends again after a failure, and at
// once when the page closes.
import { bytesOf } from "../data/json.ts";
import { doc, later, listen, win } from "../guard.ts";
import { openPageQueue, type PageQueue } from "./page-queue.ts";
import { CALL, oneBody, type PixelEvent, type QueuedEvent, VITAL, type Weight } from "./queue.ts";
import { takeOver } from "./stored-queue.ts";
import { deliver, handOver, isOffline, type PixelHost } from "./transport.ts";

export interface Sender {
  /** The event can be taken back for `hold` milliseconds. */
  readonly send: (event: PixelEvent, json: string, weight: Weight, hold: number) => void;
  /** Takes back an event that is not sent yet; false if it is. */
  readonly takeBack: (eventId: string) => boolean;
  /** Begins to send all events; before this call only vital ones are sent. */
  readonly open: () => void;
}

/** How long an event of each weight may wait, so that several travel in one batch. Milliseconds. */
const WAIT = [5_000, 150, 0] as const;
const LONGEST_PAUSE = 60_000;
const VITAL_NAMES = /^(purchase|lead_submit|consent)$/;

export const weightOf = (name: string): Weight => (VITAL_NAMES.test(name) ? VITAL : CALL);

/** Runs `work` once at the earliest requested moment, and drops later ones. */
const openAlarm = (work: () => void): ((inMs: number) => void) => {
  let wakesAt = Number.POSITIVE_INFINITY;
  return (inMs) => {
    const at = Date.now() + inMs;
    if (at >= wakesAt) return;
    wakesAt = at;
    later(inMs, () => {
      if (wakesAt !== at) return;
      wakesAt = Number.POSITIVE_INFINITY;
      work();
    });
  };
};

/** Half of the pause is random, so that visitors do not all come back at the same moment. */
const pauseAfter = (failures: number): number =>
  Math.min(LONGEST_PAUSE, 500 * 2 ** failures) * (0.5 + Math.random() / 2);

/** The next body of the events that may be sent now. */
const dueBatch = (ready: readonly QueuedEvent[], now: number): readonly QueuedEvent[] => {
  const due = ready.filter(({ notBefore }) => notBefore <= now);
  return oneBody(due, bytesOf);
};

/** Delivers the queue: one batch at a time, with longer pauses after each failure. */
const openDelivery = (host: PixelHost, queue: PageQueue, bodyOf: (batch: readonly QueuedEvent[]) => string) => {
  let isOpen = false;
  let isBusy = false;
  let failures = 0;
  let pausedUntil = 0;

  /**
   * While the host cannot be reached, the end of this page loses all events, not only vital ones.
   */
  const keepRest = (): void => queue.store(failures > 0 || isOffline());
  const sendDue = (ready: readonly QueuedEvent[], now: number): void => {
    const batch = dueBatch(ready, now);
    isBusy = true;
    deliver(host, bodyOf(batch), batch, (outcome) => {
      isBusy = false;
      failures = outcome === "failed" || outcome === "busy" ? failures + 1 : 0;
      if (failures === 0) queue.remove(batch);
      else pausedUntil = Date.now() + pauseAfter(failures);
      keepRest();
      wake(0);
    });
  };
  const flush = (): void => {
    const now = Date.now();
    const ready = queue.all().filter(({ weight }) => isOpen || weight === VITAL);
    if (isBusy || ready.length === 0) return;
    const next = Math.max(pausedUntil, Math.min(...ready.map(({ notBefore }) => notBefore)));
    if (isOffline()) keepRest();
    else if (next > now) wake(next - now);
    else sendDue(ready, now);
  };
  const wake = openAlarm(flush);
  return {
    keepRest,
    wake,
    open: () => {
      isOpen = true;
      wake(0);
    },
    resume: () => {
      pausedUntil = 0;
      wake(0);
    },
    /** The tab may close at any moment, so a vital event does not wait for the batch under way. */
    sendNow: (one: QueuedEvent) => {
      if (!isBusy) flush();
      else if (!isOffline()) handOver(host, bodyOf([one]));
    },
  };
};

/**
 * `envelope` writes a body around events; `mayStore` says whether they may be kept on the device.
 */
export const openSender = (host: PixelHost, envelope: (events: string) => string, mayStore: () => boolean): Sender => {
  const bodyOf = (batch: readonly QueuedEvent[]): string => envelope(batch.map(({ json }) => json).join());
  const queue = openPageQueue(mayStore);
  const { keepRest, wake, open, resume, sendNow } = openDelivery(host, queue, bodyOf);
  const leave = (): void => {
    queue.leave((batch) => handOver(host, bodyOf(batch)));
    keepRest();
  };

  listen(win, "pagehide", leave, "last");
  listen(win, "visibilitychange", () => (doc.visibilityState === "hidden" ? leave() : wake(0)), "last");
  listen(win, "online", resume);
  listen(win, "offline", keepRest);

  return {
    send: (event, json, weight, hold) => {
      const wait = Math.max(hold, WAIT[weight]);
      const one = { event, weight, json, notBefore: Date.now() + wait };
      queue.add(one);
      if (weight === VITAL) keepRest();
      if (weight !== VITAL || hold > 0) wake(wait);
      else sendNow(one);
    },
    takeBack: (eventId) => {
      const held = queue.all().filter(({ event, notBefore }) => event.event_id === eventId && notBefore > Date.now());
      queue.remove(held);
      return held.length > 0;
    },
    open: () => {
      // First, so that a stored event that cannot be taken over does not hold back the others.
      open();
      for (const { event, json } of takeOver()) queue.add({ event, json, weight: weightOf(event.t), notBefore: 0 });
    },
  };
};
