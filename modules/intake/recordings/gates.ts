// The gates of session replay, which the host checks again for each chunk that a browser sends, and
// the tickets with which visits begin.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { derive } from "../../../domain/hmac.ts";
import { drawOf } from "../../../domain/recorded-share.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";
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

const HOUR_MS = 3_600_000;
/** 16 characters, which have no spare bits that could change unnoticed. */
const MAC_BYTES = 12;
const TICKET = /^(\d{1,9})\.([A-Za-z0-9_-]{16})$/;

interface TicketFor {
  readonly clientId: number;
  /** That of the address (networkOf). */
  readonly network: string;
  readonly now: UnixMs;
}
/**
 * Tickets of GET /config, by which a page shows that it asked for its configuration before it sends
 * a recording: `hour.mac`, where the MAC is over client, hour and network.
 */
export interface Tickets {
  readonly ticketOf: (asked: TicketFor) => string;
  /** True in the hour that the ticket names and in the next one, for its client and network. */
  readonly isGood: (ticket: string, asked: TicketFor) => boolean;
}

/** The newest secret signs, and each accepted one is good. */
export const openTickets = (keyring: Pick<Keyring, "accepted">): Tickets => {
  const keys = keyring.accepted.map((secret) => derive(secret, "replay-ticket:1"));
  const macOf = (key: Buffer, { clientId, network }: TicketFor, hour: number): Buffer =>
    createHmac("sha256", key).update(`${clientId} ${hour} ${network}`).digest().subarray(0, MAC_BYTES);
  return {
    ticketOf: (asked) => {
      const hour = Math.floor(asked.now / HOUR_MS);
      return `${hour}.${macOf(keys[0]!, asked, hour).toString("base64url")}`;
    },
    isGood: (ticket, asked) => {
      const [, hourText, macText] = TICKET.exec(ticket) ?? [];
      if (hourText === undefined || macText === undefined) return false;
      const hour = Number(hourText);
      const age = Math.floor(asked.now / HOUR_MS) - hour;
      if (age !== 0 && age !== 1) return false;
      const given = Buffer.from(macText, "base64url");
      return keys.some((key) => timingSafeEqual(macOf(key, asked, hour), given));
    },
  };
};
