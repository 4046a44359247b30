// Checks for the loopback: which host names are this machine, and that a request came from a
// program on it and not from a web page.
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import ipaddr from "ipaddr.js";

/**
 * True for a host name that is this machine: there, and nowhere else, plain text is no risk. It
 * takes the `hostname` of a URL, so an IPv6 address may be in brackets.
 */
export const isLoopback = (hostname: string): boolean => {
  const name = hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return ipaddr.isValid(name) && ipaddr.process(name).range() === "loopback";
};

/** The name in `scheme://name:port` or `name:port`; undefined for any other text. */
const hostnameOf = (text: string): string | undefined => {
  const url = text.includes("://") ? text : `http://${text}`;
  return URL.canParse(url) ? new URL(url).hostname : undefined;
};
const isHere = (text: string | undefined): boolean => {
  const name = text === undefined ? undefined : hostnameOf(text);
  return name !== undefined && isLoopback(name);
};

/**
 * Returns the reason why a request is refused; undefined if it is allowed. A foreign `Host` may be
 * a name that was pointed at the loopback, so that a web page looks like a page of this machine.
 * Only browsers send `Origin`: by default no request may have one, and with `pages: "of this
 * machine"` it must be a loopback address.
 */
export function refusalOf(
  { host, origin }: Pick<IncomingHttpHeaders, "host" | "origin">,
  pages: "none" | "of this machine" = "none",
): string | undefined {
  if (!isHere(host)) return "this server answers on loopback addresses alone, and the request names another host";
  if (origin === undefined || (pages === "of this machine" && isHere(origin))) return undefined;
  return "this server answers programs of this machine, and no web page";
}

/** Digests are compared, which have equal length for every input. */
export const isSameSecret = (given: string, expected: string): boolean =>
  timingSafeEqual(digest(given), digest(expected));
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
