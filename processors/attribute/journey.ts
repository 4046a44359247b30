// The memory of the attribute stage about a device: its last clicks. They earn nothing, but answer
// the question "I clicked, why did I get no credit?"
import type { EventScored } from "../../schemas/generated.ts";
import { type MemoryOf, type Recorded, remembers, type UnixMs } from "../../stream/flow.ts";

export interface RememberedClick {
  readonly click_id: string;
  /** The time encoded in the click id. */
  readonly at: UnixMs;
  readonly link_id: number;
}
/** Clicks, newest first. */
export interface Journey {
  readonly clicks: readonly RememberedClick[];
}

/** Enough to explain a dispute. 5 clicks of 70 bytes keep a device's value below 400 bytes. */
const clicksKept = 5;
const nothing: Journey = { clicks: [] };

/**
 * Nearly all traffic is page views, which need no journey. So only clicks and the event types that
 * are always claims read it. Whether a custom event is a claim depends on facts, which are not
 * available when keys are chosen. So a commissioned custom event sees no journey, and lists only
 * the click that it carried.
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
 * Adds a click to the journey. Returns the same object if the journey has the click already or if
 * the click is older than all kept ones.
 */
export const withClick = (known: Journey, click: RememberedClick): Journey => {
  if (known.clicks.some(({ click_id }) => click_id === click.click_id)) return known;
  // Clicks of equal time are ordered by id, so that the order of arrival has no effect.
  const clicks = [...known.clicks, click]
    .sort((a, b) => b.at - a.at || (a.click_id < b.click_id ? -1 : 1))
    .slice(0, clicksKept);
  return clicks.includes(click) ? { clicks } : known;
};
