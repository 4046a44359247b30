// The gates of session replay, which the host checks again for each chunk that a browser sends.
import { createHash } from "node:crypto";
import { drawOf } from "../../../domain/recorded-share.ts";
import type { PixelSettings } from "../../catalog/pixel/pixel-picture.ts";

/**
 * A recording shows what a visitor does, so it needs analytics (0x01) in addition to its own bit
 * (0x10).
 */
export const REPLAY_BITS = 0x11;

export interface Visitor {
  readonly sessionId: string;
  /** The mask in force, without the bits that the browser's signals turn off. */
  readonly mask: number;
  /** True when the visitor chose it; false for a default. */
  readonly isChosen: boolean;
}
export interface ClosedGate {
  readonly code: "replay_off" | "no_consent" | "consent_not_chosen" | "not_sampled";
  readonly message: string;
}

export const sampleOf = (sessionId: string): number => drawOf(createHash("sha256").update(sessionId).digest("hex"));

/**
 * Returns the first closed gate; undefined when the visit may be recorded. `draw` is in [0, 100).
 */
export const closedGate = (
  settings: Pick<PixelSettings, "replay_enabled" | "replay_sample_rate" | "consent_replay">,
  { mask, isChosen, sessionId }: Visitor,
  draw = sampleOf(sessionId),
): ClosedGate | undefined => {
  if (!settings.replay_enabled)
    return { code: "replay_off", message: "this client records no visits: set replay_enabled" };
  if ((mask & REPLAY_BITS) !== REPLAY_BITS)
    return { code: "no_consent", message: "consent: the visitor's mask needs 0x01 and 0x10" };
  if (settings.consent_replay && !isChosen)
    return { code: "consent_not_chosen", message: "consent: the visitor has to choose it, svc('consent', mask)" };
  if (draw >= settings.replay_sample_rate)
    return { code: "not_sampled", message: "sid: this visit was not drawn, see replay_sample_rate" };
  return undefined;
};
