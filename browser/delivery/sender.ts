// Brings events to the pixel host: in batches, one under way at a time, again after a failure, and
// at once when the page goes.
import { bytesOf } from "../data/json.ts";
import { doc, later, listen, win } from "../guard.ts";
import { CALL, oneBody, type PixelEvent, type QueuedEvent, VITAL, type Weight, withOne } from "./queue.ts";
import { keep, takeOver } from "./stored-queue.ts";
import { deliver, handOver, isOffline, type PixelHost } from "./transport.ts";

export interface Sender {
  /** `hold`: milliseconds in which the event may still be taken back. */
  readonly send: (event: PixelEvent, json: string, weight: Weight, hold: number) => void;
  /** Takes an event back that was not sent yet; false when it was. */
  readonly takeBack: (eventId: string) => boolean;
  /** From now on events are sent; before, only what is vital is. */
  readonly open: () => void;
}

/** How long an event of each weight may wait for others to travel with. */
const WAIT = [5_000, 150, 0] as const;
const LONGEST_PAUSE = 60_000;
const VITAL_NAMES = /^(purchase|lead_submit|consent)$/;

export const weightOf = (name: string): Weight => (VITAL_NAMES.test(name) ? VITAL : CALL);

/** `envelope` writes a body around events; `mayStore`: they may be kept on the device. */
export const openSender = (host: PixelHost, envelope: (events: string) => string, mayStore: () => boolean): Sender => {
  let waiting: readonly QueuedEvent[] = [];
  let isOpen = false;
  let isBusy = false;
  let failures = 0;
  let pausedUntil = 0;
  let wakesAt = Number.POSITIVE_INFINITY;

  const bodyOf = (batch: readonly QueuedEvent[]): string => envelope(batch.map(({ json }) => json).join());
  const remove = (done: readonly QueuedEvent[]): void => {
    waiting = waiting.filter((one) => done.indexOf(one) < 0);
  };
  /** What would be lost with this page: all of it while there is no network, else what is vital. */
  const keepRest = (): void => {
    const isLost = failures > 0 || isOffline();
    keep(mayStore() ? waiting.filter(({ weight }) => isLost || weight === VITAL).map(({ json }) => json) : []);
  };
  const wake = (inMs: number): void => {
    const at = Date.now() + inMs;
    if (at >= wakesAt) return;
    wakesAt = at;
    later(inMs, () => {
      if (wakesAt !== at) return;
      wakesAt = Number.POSITIVE_INFINITY;
      flush();
    });
  };
  const flush = (): void => {
    const now = Date.now();
    const ready = waiting.filter(({ weight }) => isOpen || weight === VITAL);
    if (isBusy || ready.length === 0) return;
    const next = Math.max(pausedUntil, Math.min(...ready.map(({ notBefore }) => notBefore)));
    if (isOffline()) keepRest();
    else if (next > now) wake(next - now);
    else sendDue(ready, now);
  };
  const sendDue = (ready: readonly QueuedEvent[], now: number): void => {
    const due = ready.filter(({ notBefore }) => notBefore <= now);
    const batch = oneBody(due, bytesOf);
    isBusy = true;
    deliver(host, bodyOf(batch), batch, (outcome) => {
      isBusy = false;
      const isFailed = outcome === "failed" || outcome === "busy";
      failures = isFailed ? failures + 1 : 0;
      if (!isFailed) remove(batch);
      // Half of the pause is drawn, so that visitors do not all come back at once.
      else pausedUntil = Date.now() + Math.min(LONGEST_PAUSE, 500 * 2 ** failures) * (0.5 + Math.random() / 2);
      keepRest();
      wake(0);
    });
  };
  /** What the browser takes is gone, but for what is vital, which the next page sends again. */
  const leave = (): void => {
    let rest = waiting;
    while (rest.length > 0 && !isOffline()) {
      const batch = oneBody(rest, bytesOf);
      if (!handOver(host, bodyOf(batch))) break;
      rest = rest.slice(batch.length);
      waiting = waiting
        .filter((one) => one.weight === VITAL || batch.indexOf(one) < 0)
        .map((one) => ({ ...one, notBefore: 0 }));
    }
    keepRest();
  };
  const atOnce = (): void => {
    pausedUntil = 0;
    wake(0);
  };

  listen(win, "pagehide", leave, "last");
  listen(win, "visibilitychange", () => (doc.visibilityState === "hidden" ? leave() : wake(0)), "last");
  listen(win, "online", atOnce);
  listen(win, "offline", keepRest);

  return {
    send: (event, json, weight, hold) => {
      const wait = Math.max(hold, WAIT[weight]);
      const one = { event, weight, json, notBefore: Date.now() + wait };
      waiting = withOne(waiting, one);
      if (weight === VITAL) keepRest();
      // The tab may be gone in the next moment, and a batch under way is no reason to wait.
      if (weight !== VITAL || hold > 0) wake(wait);
      else if (!isBusy) flush();
      else if (!isOffline()) handOver(host, bodyOf([one]));
    },
    takeBack: (eventId) => {
      const found = waiting.filter(({ event, notBefore }) => event.event_id === eventId && notBefore > Date.now());
      remove(found);
      return found.length > 0;
    },
    open: () => {
      isOpen = true;
      for (const { event, json } of takeOver())
        waiting = withOne(waiting, { event, json, weight: weightOf(event.t), notBefore: 0 });
      wake(0);
    },
  };
};
