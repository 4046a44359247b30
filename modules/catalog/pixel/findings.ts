// Finds what keeps a pixel from working, as sentences with their fix.
import type { UnixMs } from "../../../stream/flow.ts";
import type { Week } from "../../figures/rollups/rollup-reads.ts";
import type { PixelConfig } from "./pixel-config.ts";
import type { Sighting } from "./sightings.ts";

export interface Finding {
  readonly code: string;
  readonly sentence: string;
  readonly fix: string;
}
interface PixelPicture {
  readonly events_last_hour: number;
  readonly last_seen_at: UnixMs | null;
  /** What came from all sources within a week; absent if unknown. */
  readonly week?: Week;
  /** Sightings of the pixel host within a week. */
  readonly sightings?: readonly Sighting[];
}
type Look = (seen: PixelPicture, config: PixelConfig) => Finding | undefined;

/** Fewer events tell nothing about an integration. */
const ENOUGH = 50;
const most = (seen: PixelPicture, ...codes: readonly string[]): readonly Sighting[] =>
  (seen.sightings ?? []).filter(({ code }) => codes.includes(code));
const sum = (sightings: readonly Sighting[]): number => sightings.reduce((all, { count }) => all + count, 0);
const named = (subject: string): string => (subject === "" ? "a page that does not say which" : subject);
/** Codes that have a sentence of their own or are no refusals. */
const NO_REFUSALS = new Set([
  "taken",
  "without_consent",
  "domain_not_allowed",
  "clock_skew",
  "page_problem",
  "quota_spent",
]);

const hasPages = ({ tracking_type }: PixelConfig): boolean => tracking_type === "PIXEL" || tracking_type === "HYBRID";

/** A purchase may also come from an external source, under a type of its own. */
const SOLD = ["purchase", "ext_purchase"];

/** The types whose events of the last week `findingsOf` needs to know. */
export const awaitedTypes = ({ tracked_events }: Pick<PixelConfig, "tracked_events">): readonly string[] => [
  ...new Set([...tracked_events, ...SOLD]),
];

const looks: readonly Look[] = [
  ({ last_seen_at }, config) =>
    last_seen_at === null && hasPages(config)
      ? {
          code: "never_seen",
          sentence: "The pixel has sent nothing for 90 days.",
          fix: "Put the snippet of this client into the head of every page, and open one of them.",
        }
      : undefined,
  ({ last_seen_at, events_last_hour }, config) =>
    last_seen_at !== null && events_last_hour === 0 && hasPages(config)
      ? {
          code: "silent",
          sentence: "The pixel worked before and has sent nothing for an hour.",
          fix: "Open a page and look whether the snippet is still there and whether the browser blocks it.",
        }
      : undefined,
  ({ events_last_hour }, config) =>
    !hasPages(config) && events_last_hour > 0
      ? {
          code: "unexpected_pixel",
          sentence: `Events come from a pixel, though this client sends from its ${senderOf(config)} alone.`,
          fix: "Take the snippet out, or set tracking_type to HYBRID.",
        }
      : undefined,
  ({ week }, config) =>
    config.tracking_type !== "PIXEL" && week?.fromServers === 0
      ? {
          code: "no_server_events",
          sentence: `Nothing came from the ${senderOf(config)} of this client for a week.`,
          fix: "Send its events to /ingest/batch or connect a source, or set tracking_type to PIXEL.",
        }
      : undefined,
  (_seen, { jurisdiction, consent_default }) =>
    jurisdiction === "MX" && consent_default === 0
      ? {
          code: "consent_off",
          sentence: "Nothing is allowed by default, so visitors are not recognised before they agree.",
          fix: "Call svc('consent') once the visitor has agreed, or allow more by default.",
        }
      : undefined,
  (_seen, { replay_enabled, replay_sample_rate }) =>
    replay_enabled && replay_sample_rate === 0
      ? {
          code: "replay_of_none",
          sentence: "Recording is on, and none of the visits is recorded.",
          fix: "Set replay_sample_rate above 0, or switch recording off.",
        }
      : undefined,
];

const senderOf = ({ tracking_type }: PixelConfig): string => (tracking_type === "APP" ? "app" : "server");

/** Findings from sightings: the most frequent case of each kind. */
const ofSightings: readonly Look[] = [
  (seen) => {
    const [first] = most(seen, "domain_not_allowed");
    return first === undefined
      ? undefined
      : {
          code: "blocked_domain",
          sentence: `${named(first.subject)} sent ${first.count} events and is not on the list of allowed domains.`,
          fix: "Add its host to allowed_domains, or take the snippet out of that page.",
        };
  },
  (seen) => {
    const spent = most(seen, "quota_spent");
    return spent.length === 0
      ? undefined
      : {
          code: "quota_spent",
          sentence: `${sum(spent)} events came while the quota of this client was spent; their pages send them again.`,
          fix: "See what floods the pixel, a page or a stranger; tributary quotas set raises it.",
        };
  },
  (seen) => {
    const [first] = most(seen, "wrong_client");
    return first === undefined
      ? undefined
      : {
          code: "wrong_client",
          sentence: `${first.count} events name another client than the page that sent them.`,
          fix: "Look for a second snippet, or a client_id that was copied from elsewhere.",
        };
  },
  (seen) => {
    const [first] = most(seen, "missing_prop");
    const [t, prop] = (first?.subject ?? "").split(" ");
    return first === undefined
      ? undefined
      : {
          code: "missing_props",
          sentence: `${first.count} events of type ${t} came without ${prop} and were not taken.`,
          fix: `Send ${prop}: svc("event", "${t}", {...}). They are tried again.`,
        };
  },
  (seen) => {
    const [first] = (seen.sightings ?? []).filter(
      ({ code }) => !NO_REFUSALS.has(code) && code !== "missing_prop" && code !== "wrong_client",
    );
    return first === undefined
      ? undefined
      : {
          code: "refused_events",
          sentence: `${first.count} events were refused as ${first.code} (${named(first.subject)}).`,
          fix: "Correct what the page sends; docs/design/contracts.md has the rule of each field.",
        };
  },
  (seen, { tracked_events }) =>
    tracked_events.includes("purchase") &&
    seen.week !== undefined &&
    !SOLD.some((type) => seen.week!.types.has(type)) &&
    sum(most(seen, "taken")) >= ENOUGH
      ? {
          code: "no_purchase",
          sentence: "The pixel sends events, and no purchase came from anywhere for a week.",
          fix: 'Call svc("event", "purchase", {...}) on the page behind an order, or send orders by a server.',
        }
      : undefined,
  (seen, { tracked_events }) => {
    const absent = tracked_events.filter((type) => !SOLD.includes(type) && seen.week?.types.has(type) === false);
    return absent.length === 0 || sum(most(seen, "taken")) < ENOUGH
      ? undefined
      : {
          code: "not_seen",
          sentence: `The pixel sends events, and no ${absent.join(", no ")} came from anywhere for a week.`,
          fix: "Send what is missing, or take it out of tracked_events if it is not expected.",
        };
  },
  (seen) => {
    const [without, taken] = [sum(most(seen, "without_consent")), sum(most(seen, "taken"))];
    return without < ENOUGH || without < taken
      ? undefined
      : {
          code: "consent_missing",
          sentence: `${without} of ${without + taken} events came without consent to analytics and were not stored.`,
          fix: "Call svc('consent', mask) once the visitor has agreed, on every page; look at the consent banner.",
        };
  },
  (seen) => {
    const doubled = most(seen, "page_problem").find(({ subject }) => subject === "double_init");
    return doubled === undefined
      ? undefined
      : {
          code: "double_init",
          sentence: `svc("init") ran twice on a page, ${doubled.count} times.`,
          fix: "Keep one snippet: look into the tag manager and the template of the page.",
        };
  },
  (seen) => {
    const skewed = most(seen, "clock_skew");
    const worst = Math.max(0, ...skewed.map(({ largest_ms }) => largest_ms));
    return sum(skewed) < ENOUGH || sum(skewed) * 10 < sum(most(seen, "taken"))
      ? undefined
      : {
          code: "clock_skew",
          sentence: `${sum(skewed)} requests had a clock that was off by up to ${Math.round(worst / 60_000)} minutes.`,
          fix: "Look for a page that sets ts by itself; times are Unix milliseconds, UTC.",
        };
  },
];

/** All problems of the pixel, the most serious first. */
export const findingsOf = (seen: PixelPicture, config: PixelConfig): readonly Finding[] =>
  [...looks, ...ofSightings].map((look) => look(seen, config)).filter((one) => one !== undefined);
