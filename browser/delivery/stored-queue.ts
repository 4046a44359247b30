// Events that outlive their page: one list for each tab in local storage, which the next page of
// the site takes over. Sending an event twice is harmless, because its event id is the same.

import { toJson } from "../data/json.ts";
import { quietly, randomId } from "../guard.ts";
import { local } from "../visitor/storage.ts";
import type { PixelEvent } from "./queue.ts";

const PREFIX = "_svc_q.";
const own = PREFIX + randomId().slice(0, 8);
const MAX_KEPT = 60_000;
/** Milliseconds; an older event is too old to be of use. */
const MAX_AGE = 7 * 86_400_000;

/** Replaces the stored list; an empty list is removed. */
export const keep = (events: readonly string[]): void => {
  quietly(() => {
    let text = events.join(",");
    for (let n = 1; text.length > MAX_KEPT; n += 1) text = events.slice(n).join(",");
    if (text === "") local()?.removeItem(own);
    else local()?.setItem(own, `[${text}]`);
  });
};

const isEvent = (given: unknown): given is PixelEvent => {
  const { t, ts, event_id: id, did } = (given ?? {}) as any;
  return typeof t === "string" && typeof id === "string" && typeof did === "string" && ts > Date.now() - MAX_AGE;
};

/** Removes the lists that earlier pages left and returns their events with their texts. */
export const takeOver = (): readonly { readonly event: PixelEvent; readonly json: string }[] => {
  const storage = local();
  const taken: PixelEvent[] = [];
  quietly(() => {
    for (const key of Object.keys(storage ?? {}))
      if (key.slice(0, PREFIX.length) === PREFIX && key !== own) {
        const list: unknown = quietly(() => JSON.parse(storage!.getItem(key)!));
        storage!.removeItem(key);
        if (Array.isArray(list)) taken.push(...list.filter(isEvent));
      }
  });
  return taken.map((event) => ({ event, json: toJson(event) }));
};
