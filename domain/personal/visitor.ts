// The facts about an event's visitor other than the device id: address and user agent, the
// browser's privacy signals, a consent choice, and a country that the sender knows better.
import type { EventReceived } from "../../schemas/generated.ts";
import { propsOf } from "../conditions/props.ts";

/**
 * Null if absent, or if the address comes from a request that the visitor's device did not send.
 */
export const addressOfVisitor = ({ ip, ip_source, client_side }: EventReceived): string | null =>
  client_side || ip_source !== "request" ? ip : null;

export const userAgentOfVisitor = ({ ua, ua_source, client_side }: EventReceived): string | null =>
  client_side || ua_source !== "request" ? ua : null;

export interface Signals {
  readonly hasGpc: boolean;
  readonly hasDnt: boolean;
  /** ISO 3166-1 alpha-2, upper case. */
  readonly country: string | null;
  /** The consent mask as sent. Null if it is not a number. */
  readonly mask: number | null;
}

const none: Signals = { hasGpc: false, hasDnt: false, country: null, mask: null };
/**
 * Parsing the props of every event would cost more than the rest of the stage, so only texts that
 * contain one of these names are parsed.
 */
const maySignal = /"(?:gpc|dnt|country|mask)"/;

/**
 * A signal may be in the props (read by the pixel in the browser) or in the warnings (read by an
 * edge from a header). Either is enough.
 */
export const signalsIn = (event: EventReceived): Signals => {
  const props = maySignal.test(event.props) ? propsOf(event.props) : undefined;
  if (props === undefined && event.warnings.length === 0) return none;
  return {
    hasGpc: isOn(props?.gpc) || event.warnings.includes("gpc"),
    hasDnt: isOn(props?.dnt) || event.warnings.includes("dnt"),
    country: countryIn(props?.country),
    mask: typeof props?.mask === "number" ? props.mask : null,
  };
};

/** Accepts `Sec-GPC: 1`, `DNT: 1`, and the booleans of `navigator.globalPrivacyControl`. */
const isOn = (value: unknown): boolean => value === true || value === 1 || value === "1";

const countryIn = (value: unknown): string | null =>
  typeof value === "string" && /^[A-Za-z]{2}$/.test(value) ? value.toUpperCase() : null;
