// What a reprocess will read, as far as indexes and offsets say it, before it reads anything.
import { topics } from "../../../topics.ts";
import { USUAL_MS, windowStretch } from "./log/event-search.ts";
import { type IndexedClaims, type ReprocessPorts, type ReprocessSettings, TooMuch } from "./ports.ts";

export interface Cost {
  /** Stored events that were received in the window. */
  readonly events: number;
  /** Orders with a conversion in the window, their claims, and those that are copies around it. */
  readonly orders: number;
  readonly claims: number;
  readonly copies: number;
  /** Messages of the log to read, claims included. */
  readonly messages: number;
  /** An estimate. */
  readonly seconds: number;
}

/** Measured on one machine of 2 cores, with everything else on it (docs/reprocess.md). */
const EVENTS_PER_SECOND = 6_000;
const CLAIMS_PER_SECOND = 2_000;
/** Groups of Kafka that are joined and left. */
const FIXED_SECONDS = 2;

/** Throws TooMuch for a window that is larger than the limits. */
export const costOf = async (
  { countOf, messagesIn, limits }: Pick<ReprocessPorts, "countOf" | "messagesIn" | "limits">,
  settings: ReprocessSettings,
  { orders, claims }: IndexedClaims,
): Promise<Cost> => {
  const isCommission = settings.stage === "commission";
  const window = windowStretch(settings);
  const [events, inWindow] = isCommission
    ? [0, 0]
    : await Promise.all([countOf(settings), messagesIn(topics.eventsRaw, [window])]);
  if (events > limits.events) throw new TooMuch("events", limits.events);
  if (claims.length > limits.claims) throw new TooMuch("claims", limits.claims);
  const copies = claims.filter(
    ({ isConversion, receivedAt }) => isConversion && (receivedAt < settings.from || receivedAt >= settings.to),
  ).length;
  // Each is read with the messages of its partition around it.
  const around = (inWindow / topics.eventsRaw.partitions) * (USUAL_MS / (window.until! - window.from));
  const ofLog = inWindow + (isCommission ? 0 : Math.round(copies * around));
  return {
    ...{ events, orders, copies, claims: claims.length, messages: ofLog + claims.length },
    seconds: Math.ceil(FIXED_SECONDS + ofLog / EVENTS_PER_SECOND + claims.length / CLAIMS_PER_SECOND),
  };
};
