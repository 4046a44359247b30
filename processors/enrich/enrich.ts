// Adds to an event what can be looked up about it: place, network, device, bot flag, person; and
// lets go on what consent allows.

import { maskInForce } from "../../domain/personal/consent.ts";
import { signalsIn } from "../../domain/personal/signals.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import { addressOfVisitor, userAgentOfVisitor } from "../../domain/visitor.ts";
import type { EventEnriched, EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import { drop, emit, type Processor } from "../../stream/flow.ts";
import { noUserAgent, userAgentOf } from "./browser.ts";
import { allowedBy } from "./consent.ts";
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
const analytics = 0x01;

/**
 * What cannot be found out is null, and `errors` names each look-up that failed: none of them
 * blocks. An address or a user agent that was taken from a request which the visitor's device did
 * not send is the server's, so it says nothing about the visitor and is left out. What consent
 * withholds is read here for the last time: a country, a kind of network and a kind of device
 * remain of it.
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
  const isSeen = (consent & analytics) !== 0;
  const address = addressOfVisitor(event);
  const ua = userAgentOfVisitor(event);
  const userAgent = ua === null ? noUserAgent : userAgentOf(ua);
  const place = address === null ? noPlace : facts.placeOf(address);
  // A country that the sender gave is not overwritten, and then what the address says of region and
  // city is another place's.
  const isGiven = signals.country !== null;
  const placeError = isGiven && place.error === "geo_unavailable" ? null : place.error;
  const canLink = isLinkable(event, consent);
  const unlink = unlinkedBy(event);
  const shown = canLink ? stillLinked(identifiersIn(event, facts.identifyOf), known) : noIdentifiers;
  const after = unlink === null ? personAfter(known, shown, input) : personWithout(known, unlink.identifier);
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
            person: canLink ? personOf(shown, after, input.at) : null,
            edges: linksLeft(
              canLink ? identityLinksOf(event, shown, { identify: facts.identifyOf, at: input.at }) : noIdentityLinks,
              linksAcrossClientsOf(event, consent, input.at),
              known,
            ),
          },
        },
      },
    ],
    after,
  );
};

/** All of them, less what decisions took from the device. Most events prove none. */
const linksLeft = (
  own: readonly IdentityEdge[],
  across: readonly IdentityEdge[],
  known: Person | null,
): readonly IdentityEdge[] =>
  own.length === 0 && across.length === 0
    ? noIdentityLinks
    : [...own, ...across].filter(({ identifier }) => known?.unlinked?.includes(identifier) !== true);

const namesOf = (...errors: readonly (string | null)[]): readonly string[] => errors.filter((error) => error !== null);
