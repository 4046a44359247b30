// The edge of GET /c/:code: a visit to a tracking link becomes a click, or a filtered click that
// names the reason.
import { isbot } from "isbot";
import type { TrackedLink } from "../../domain/links/tracked-link.ts";
import { memo } from "../../domain/memo.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { Admission, Arrival } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import type { BatchFacts } from "./batch.ts";
import { admitEvent } from "./event.ts";
import { type Terms, userAgentOf } from "./request-terms.ts";

/** The visitor's request, unchanged. */
export interface LinkVisit {
  readonly isHead: boolean;
  /**
   * The address of the link as the visitor's browser shows it. Null if the request named no host.
   */
  readonly url: string | null;
  /** The shop's own id of the device (`_svc_did`), if the visitor's request has it. */
  readonly did: string | undefined;
}
export interface LinkBody {
  readonly events: readonly [LinkVisit];
}
export interface LinkFacts extends Pick<BatchFacts, "clientId" | "consentDefault" | "identify"> {
  readonly link: TrackedLink;
  /** The click id that the visitor takes to the shop. Null if the link is not in use. */
  readonly clickId: string | null;
  /** A unique id of this visit: 1 to 128 characters of A-Z a-z 0-9 . _ : - */
  readonly visitId: string;
}

/** Wraps a visit that the host built itself, so there is no foreign body to check. */
export const acceptsVisit = (visit: unknown): LinkBody => ({ events: [visit as LinkVisit] });

/**
 * A name that the pixel never sends. Reports count these visits beside clicks, and the attribute
 * stage does not remember them.
 */
const FILTERED = "click_filtered";
/**
 * Header values contain no surrogates and no U+0000, so the texts of a visit need no check for
 * them.
 */
const texts = { mayBeBroken: false, mayHoldEmail: true } as const;

/**
 * Admits one visit. Pure. A device without the shop's id gets the click id, or else the visit id,
 * as its device id. If URL or referrer cannot be stored, they are left out and the click still
 * counts.
 */
export function* admitVisit(
  { events: [visit] }: LinkBody,
  arrival: Arrival,
  facts: LinkFacts,
): Generator<Admission<EventReceived>, void> {
  const terms = termsOf(arrival, facts);
  const event = eventOf(visit, arrival, facts);
  const whole = admitEvent(event, terms);
  const admitted = whole.kind === "accepted" ? whole : admitEvent({ ...event, url: undefined, ref: undefined }, terms);
  // The event id was made by Tributary, so no sender can ask for the event by it.
  yield admitted.kind === "accepted" ? { ...admitted, data: { ...admitted.data, sender_event_id: null } } : admitted;
}

/**
 * Many browsers share a user agent, and matching the long list of crawlers is slow, so results are
 * remembered.
 */
const AGENTS_REMEMBERED = 10_000;
const isCrawler = memo(AGENTS_REMEMBERED, (agent): boolean => isbot(agent));

const eventOf = (visit: LinkVisit, { receivedAt, header }: Arrival, facts: LinkFacts) => {
  const { link, client, fault } = facts.link;
  const filtered = fault ?? (visit.isHead ? "head" : isCrawler(header("user-agent") ?? "") ? "crawler" : null);
  return {
    event_id: facts.visitId,
    t: filtered === null ? "click" : FILTERED,
    ts: receivedAt,
    cid: client.client_id,
    did: visit.did ?? facts.clickId ?? facts.visitId,
    svc_click_id: facts.clickId,
    url: visit.url,
    ref: header("referer"),
    props: {
      ...{ code: link.code, link_id: link.link_id, campaign_id: link.campaign_id },
      ...(filtered === null ? {} : { filtered }),
      ...(header("sec-gpc") === "1" ? { gpc: true } : {}),
      ...(header("dnt") === "1" ? { dnt: true } : {}),
    },
  };
};

/**
 * The request comes from the visitor's own device, so its address and browser are the visitor's.
 */
const termsOf = ({ receivedAt, address, header }: Arrival, facts: LinkFacts): Terms => ({
  source: "link",
  clientId: facts.clientId,
  isClientSide: true,
  consentDefault: facts.consentDefault,
  segments: new Set<string>(),
  identify: facts.identify,
  texts,
  receivedAt,
  oldest: receivedAt,
  newest: receivedAt,
  address: address === null ? null : (addressOf(address) ?? null),
  userAgent: userAgentOf(header("user-agent"), facts.identify),
  batchId: null,
});
