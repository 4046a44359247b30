// Events that outlive their page: a list for each tab in local storage, taken over by the next page
// of the site. Sent twice is harmless: their event ids are the same.

import { toJson } from "../data/json.ts";
import { quietly, randomId } from "../guard.ts";
import { local } from "../visitor/storage.ts";
import type { PixelEvent } from "./queue.ts";

const PREFIX = "_svc_q.";
const own = PREFIX + randomId().slice(0, 8);
const MAX_KEPT = 60_000;
/** Older ones have waited too long to matter to anybody. */
const MAX_AGE = 7 * 86_400_000;

/** In place of what was kept before; nothing is kept for an empty list. */
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

/** What pages before left, with its text; it is ours from now on. */
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
