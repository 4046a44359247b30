// Adds what can be looked up about an event (place, network, device, bot flag and person) and
// passes on what consent allows.

import { allowedBy, allowsAnalytics, maskInForce } from "../../domain/personal/consent.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import { addressOfVisitor, signalsIn, userAgentOfVisitor } from "../../domain/personal/visitor.ts";
import type { EventEnriched, EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import { drop, emit, type Processor, type Recorded } from "../../stream/flow.ts";
import { noUserAgent, userAgentOf } from "./browser.ts";
import type { EnrichFacts } from "./facts.ts";
import {
  identifiersIn,
  isLinkable,
  noIdentifiers,
  type Person,
  personAfter,
  personOf,
  personWithout,
  stillLinked,
} from "./identity.ts";
import { identityLinksOf, linksAcrossClientsOf, noIdentityLinks } from "./identity-links.ts";
import { noPlace } from "./places.ts";

const noErrors: readonly string[] = [];

/**
 * A failed look-up gives null and a name in `errors`; it never blocks the event. If the request
 * came from a server, its address and user agent say nothing about the visitor and are left out.
 * Data that consent withholds is read here for the last time: only country, kind of network and
 * kind of device remain of it.
 */
export const enrich: Processor<
  EventReceived,
  { enriched: EventEnriched },
  Person | null,
  EnrichFacts,
  "no_analytics_consent"
> = (input, known, facts) => {
  const event = input.data;
  const signals = signalsIn(event);
  const consent = maskInForce(event.consent, signals);
  const allowed = allowedBy(consent, event);
  if (allowed === null) return drop("no_analytics_consent", known);
  const isSeen = allowsAnalytics(consent);
  const address = addressOfVisitor(event);
  const ua = userAgentOfVisitor(event);
  const userAgent = ua === null ? noUserAgent : userAgentOf(ua);
  const place = address === null ? noPlace : facts.placeOf(address);
  // A country from the sender is kept. Region and city from the address are then left out, because
  // they may lie elsewhere.
  const isGiven = signals.country !== null;
  const placeError = isGiven && place.error === "geo_unavailable" ? null : place.error;
  const { person, edges, after } = identityOf(input, consent, known, facts);
  return emit<{ enriched: EventEnriched }, Person | null>(
    [
      {
        output: "enriched",
        data: {
          event: allowed,
          enrichment: {
            country: signals.country ?? place.country,
            device: userAgent.device,
            browser: userAgent.browser,
            os: userAgent.os,
            is_bot: userAgent.isBot,
            consent,
            geo_built: facts.built,
            errors: placeError === null && userAgent.error === null ? noErrors : namesOf(placeError, userAgent.error),
            region: isSeen && !isGiven ? place.region : null,
            city: isSeen && !isGiven ? place.city : null,
            asn: isSeen ? place.asn : null,
            asn_class: place.asn_class,
            person,
            edges,
          },
        },
      },
    ],
    after,
  );
};

/**
 * The person that the event shows, the identity links that it proves, and the new memory of its
 * device.
 */
const identityOf = (
  input: Recorded<EventReceived>,
  consent: number,
  known: Person | null,
  { identifyOf: identify }: EnrichFacts,
) => {
  const { data: event, at } = input;
  const canLink = isLinkable(event, consent);
  const unlink = unlinkedBy(event);
  const shown = canLink ? stillLinked(identifiersIn(event, identify), known) : noIdentifiers;
  const after = unlink === null ? personAfter(known, shown, input) : personWithout(known, unlink.identifier);
  const own = canLink ? identityLinksOf(event, shown, { identify, at }) : noIdentityLinks;
  return {
    person: canLink ? personOf(shown, after, at) : null,
    edges: linksLeft(own, linksAcrossClientsOf(event, consent, at), known),
    after,
  };
};

/**
 * The identity links of the event, without those that decisions removed from the device. Most
 * events have none.
 */
const linksLeft = (
  own: readonly IdentityEdge[],
  across: readonly IdentityEdge[],
  known: Person | null,
): readonly IdentityEdge[] =>
  own.length === 0 && across.length === 0
    ? noIdentityLinks
    : [...own, ...across].filter(({ identifier }) => known?.unlinked?.includes(identifier) !== true);

const namesOf = (...errors: readonly (string | null)[]): readonly string[] => errors.filter((error) => error !== null);
