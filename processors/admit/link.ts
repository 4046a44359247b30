// The edge of GET /c/:code: a visit to a tracking link becomes a click, or a filtered click that
// says why it is none.
import { isbot } from "isbot";
import type { TrackedLink } from "../../domain/links/tracked-link.ts";
import { memo } from "../../domain/memo.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { Admission, Arrival } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import type { BatchFacts } from "./batch.ts";
import { admitEvent, type Terms, userAgentOf } from "./event.ts";

/** What a visitor asked for, as it came. */
export interface LinkVisit {
  readonly isHead: boolean;
  /** The address of the link as the visitor's browser shows it; null when it named no host. */
  readonly url: string | null;
  /** What the shop knows the device by (`_svc_did`), when the visitor brings it. */
  readonly did: string | undefined;
}
export interface LinkBody {
  readonly events: readonly [LinkVisit];
}
export interface LinkFacts extends Pick<BatchFacts, "clientId" | "consentDefault" | "identify"> {
  readonly link: TrackedLink;
  /** The id that the visitor takes along; null: the link is not in use. */
  readonly clickId: string | null;
  /** Names this visit alone: 1 to 128 of A-Z a-z 0-9 . _ : - */
  readonly visitId: string;
}

/** One visit, made by the host: nothing of it is a body that someone sent. */
export const acceptsVisit = (visit: unknown): LinkBody => ({ events: [visit as LinkVisit] });

/**
 * A name that the pixel does not send: figures count it beside clicks, attribute remembers nothing
 * of it.
 */
const FILTERED = "click_filtered";
/** Nothing else is in the texts of a visit: header values hold no surrogates and no U+0000. */
const texts = { mayBeBroken: false, mayHoldEmail: true } as const;

/**
 * Pure. The visit's own id stands for a device that brings none of the shop's. What a visitor wrote
 * is left out when it cannot be kept: the click is one all the same.
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
  // The id is ours: no one can ask for the visit by it.
  yield admitted.kind === "accepted" ? { ...admitted, data: { ...admitted.data, sender_event_id: null } } : admitted;
}

/** Browsers that name themselves alike are many, and the list of crawlers is long. */
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

/** A visitor's own device: what it says about itself is about the visitor. */
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
