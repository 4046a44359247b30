// What attribute remembers of a device: its last clicks. They earn nothing; they answer "I clicked,
// why no credit?"
import type { EventScored } from "../../schemas/generated.ts";
import { type MemoryOf, type Recorded, remembers, type UnixMs } from "../../stream/flow.ts";

export interface RememberedClick {
  readonly click_id: string;
  /** The time inside the click id. */
  readonly at: UnixMs;
  readonly link_id: number;
}
/** Newest first. */
export interface Journey {
  readonly clicks: readonly RememberedClick[];
}

/** Enough to explain a dispute; 5 clicks of 70 bytes keep a device's value below 400 bytes. */
const clicksKept = 5;
const nothing: Journey = { clicks: [] };

/**
 * Page views need no journey and are nearly all traffic, so only clicks and the claims known by
 * their type read it. Whether a custom event is a claim depends on facts, which a key cannot ask: a
 * commissioned custom event therefore meets no journey and names no click that it did not carry.
 */
const readers: ReadonlySet<string> = new Set(["click", "purchase", "ext_purchase", "lead_submit", "install"]);

export const journey: MemoryOf<Journey> = remembers<Journey>({
  name: "journey",
  keyedBy: "client_id:did",
  driver: "fast",
  initial: nothing,
  when: (event: Recorded<EventScored>) => readers.has(event.data.event.t),
  encode: ({ clicks }) =>
    Buffer.from(JSON.stringify(clicks.map(({ click_id, at, link_id }) => [click_id, at, link_id]))),
  decode: (bytes) => ({
    clicks: (JSON.parse(Buffer.from(bytes).toString()) as readonly (readonly [string, UnixMs, number])[]).map(
      ([click_id, at, link_id]) => ({
        click_id,
        at,
        link_id,
      }),
    ),
  }),
});

/**
 * The journey with one more click: the same object when it knows the click already, or when the
 * click is older than all that are kept.
 */
export const withClick = (known: Journey, click: RememberedClick): Journey => {
  if (known.clicks.some(({ click_id }) => click_id === click.click_id)) return known;
  // Equal times are put in order by id, so that the order of arrival does not show.
  const clicks = [...known.clicks, click]
    .sort((a, b) => b.at - a.at || (a.click_id < b.click_id ? -1 : 1))
    .slice(0, clicksKept);
  return clicks.includes(click) ? { clicks } : known;
};
