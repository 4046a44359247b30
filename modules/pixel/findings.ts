// What keeps a pixel from working, as sentences with their fix.
import type { UnixMs } from "../../stream/flow.ts";
import type { PixelConfig } from "./pixel-config.ts";

export interface Finding {
  readonly code: string;
  readonly sentence: string;
  readonly fix: string;
}
interface Seen {
  readonly events_last_hour: number;
  readonly last_seen_at: UnixMs | null;
}
type Look = (seen: Seen, config: PixelConfig) => Finding | undefined;

const looks: readonly Look[] = [
  ({ last_seen_at }, { tracking_type }) =>
    last_seen_at === null && tracking_type !== "S2S"
      ? {
          code: "never_seen",
          sentence: "The pixel has sent nothing for 90 days.",
          fix: "Put the snippet of this client into the head of every page, and open one of them.",
        }
      : undefined,
  ({ last_seen_at, events_last_hour }) =>
    last_seen_at !== null && events_last_hour === 0
      ? {
          code: "silent",
          sentence: "The pixel worked before and has sent nothing for an hour.",
          fix: "Open a page and look whether the snippet is still there and whether the browser blocks it.",
        }
      : undefined,
  ({ events_last_hour }, { tracking_type }) =>
    tracking_type === "S2S" && events_last_hour > 0
      ? {
          code: "unexpected_pixel",
          sentence: "Events come from a pixel, though this client sends from its server alone.",
          fix: "Take the snippet out, or set tracking_type to HYBRID.",
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

/** Everything that is wrong, the gravest first. */
export const findingsOf = (seen: Seen, config: PixelConfig): readonly Finding[] =>
  looks.map((look) => look(seen, config)).filter((one) => one !== undefined);
