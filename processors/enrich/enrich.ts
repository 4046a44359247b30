// processors/enrich/enrich.ts - adds to an event what can be looked up about it: country, device, bot flag; and lets go on what consent allows.
import type { EventEnriched, EventReceived } from "../../schemas/generated.ts";
import { drop, emit, type Processor } from "../../stream/flow.ts";
import { noUserAgent, userAgentOf } from "./browser.ts";
import { allowedBy, maskInForce } from "./consent.ts";
import type { Place, Places } from "./places.ts";
import { signalsIn } from "./signals.ts";

const noPlace: Place = { country: null, error: null };
const noErrors: readonly string[] = [];

/**
 * What cannot be found out is null, and `errors` names each look-up that failed: none of them blocks. An address or a user agent that was taken from
 * a request which the visitor's device did not send is the server's, so it says nothing about the visitor and is left out. What consent withholds is
 * read here for the last time: a country and a kind of device remain of it.
 */
export const enrich: Processor<EventReceived, { enriched: EventEnriched }, null, Places, "no_analytics_consent"> = (input, _, places) => {
  const event = input.data;
  const signals = signalsIn(event);
  const consent = maskInForce(event.consent, signals);
  const allowed = allowedBy(consent, event);
  if (allowed === null) return drop("no_analytics_consent");
  const hasVisitorIp = event.ip !== null && (event.client_side || event.ip_source !== "request");
  const hasVisitorUa = event.ua !== null && (event.client_side || event.ua_source !== "request");
  const userAgent = hasVisitorUa ? userAgentOf(event.ua!) : noUserAgent;
  // A country that the sender gave is not overwritten.
  const place = signals.country === null && hasVisitorIp ? places.placeOf(event.ip!) : noPlace;
  return emit([
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
          geo_built: places.built,
          errors: place.error === null && userAgent.error === null ? noErrors : namesOf(place.error, userAgent.error),
        },
      },
    },
  ]);
};

const namesOf = (...errors: readonly (string | null)[]): readonly string[] => errors.filter((error) => error !== null);
