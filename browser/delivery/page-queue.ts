// The events of one page that wait for delivery, and how they outlive the page.
import { bytesOf } from "../data/json.ts";
import { oneBody, type QueuedEvent, VITAL, withOne } from "./queue.ts";
import { keep } from "./stored-queue.ts";
import { isOffline } from "./transport.ts";

export interface PageQueue {
  readonly all: () => readonly QueuedEvent[];
  readonly add: (one: QueuedEvent) => void;
  readonly remove: (done: readonly QueuedEvent[]) => void;
  /**
   * Stores on the device the vital events, or all of them, so that the end of this page loses none.
   */
  readonly store: (isAllLost: boolean) => void;
  /**
   * Hands all events to the browser in bodies, until it takes no more. Vital events stay in the
   * list, and the next page sends them again.
   */
  readonly leave: (handOver: (batch: readonly QueuedEvent[]) => boolean) => void;
}

/** `mayStore` says whether consent allows events on the device. */
export const openPageQueue = (mayStore: () => boolean): PageQueue => {
  let waiting: readonly QueuedEvent[] = [];
  return {
    all: () => waiting,
    add: (one) => {
      waiting = withOne(waiting, one);
    },
    remove: (done) => {
      waiting = waiting.filter((one) => done.indexOf(one) < 0);
    },
    store: (isAllLost) =>
      keep(mayStore() ? waiting.filter(({ weight }) => isAllLost || weight === VITAL).map(({ json }) => json) : []),
    leave: (handOver) => {
      let rest = waiting;
      while (rest.length > 0 && !isOffline()) {
        const batch = oneBody(rest, bytesOf);
        if (!handOver(batch)) break;
        rest = rest.slice(batch.length);
        waiting = waiting
          .filter((one) => one.weight === VITAL || batch.indexOf(one) < 0)
          .map((one) => ({ ...one, notBefore: 0 }));
      }
    },
  };
};
