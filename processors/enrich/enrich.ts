// processors/enrich/enrich.ts - adds to an event what can be looked up about it: country, device, bot flag and the consent in force.
import type { EventEnriched, EventReceived } from "../../schemas/generated.ts";
import { emit, type Processor } from "../../stream/flow.ts";
import { noUserAgent, userAgentOf } from "./browser.ts";
import type { Place, Places } from "./places.ts";
import { signalsIn } from "./signals.ts";

/** Global Privacy Control turns analytics (0x01) and DSP export (0x04) off, Do Not Track DSP export; bit 7 is reserved and kept. */
const afterGpc = ~0x05;
const afterDnt = ~0x04;

const noPlace: Place = { country: null, error: null };
const noErrors: readonly string[] = [];

/**
 * Never drops, never rejects: what cannot be found out is null, and `errors` names each look-up that failed. An address or a user agent that was
 * taken from a request which the visitor's device did not send is the server's, so it says nothing about the visitor and is left out.
 */
export const enrich: Processor<EventReceived, { enriched: EventEnriched }, null, Places> = ({ data: event }, _, places) => {
  const hasVisitorIp = event.ip !== null && (event.client_side || event.ip_source !== "request");
  const hasVisitorUa = event.ua !== null && (event.client_side || event.ua_source !== "request");
  const userAgent = hasVisitorUa ? userAgentOf(event.ua!) : noUserAgent;
  const signals = signalsIn(event);
  // A country that the sender gave is not overwritten.
  const place = signals.country === null && hasVisitorIp ? places.placeOf(event.ip!) : noPlace;
  return emit([
    {
      output: "enriched",
      data: {
        event,
        enrichment: {
          country: signals.country ?? place.country,
          device: userAgent.device,
          browser: userAgent.browser,
          os: userAgent.os,
          is_bot: userAgent.isBot,
          consent: event.consent & (signals.hasGpc ? afterGpc : -1) & (signals.hasDnt ? afterDnt : -1),
          geo_built: places.built,
          errors: place.error === null && userAgent.error === null ? noErrors : namesOf(place.error, userAgent.error),
        },
      },
    },
  ]);
};

const namesOf = (...errors: readonly (string | null)[]): readonly string[] => errors.filter((error) => error !== null);
