// By what a sender is counted where it has no credential, and what its request is called.
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The name that a sender gave its request, or one of our own. */
export const requestIdOf = ({ "x-request-id": given }: IncomingHttpHeaders): string =>
  typeof given === "string" && REQUEST_ID.test(given) ? given : randomUUID();

/**
 * The address itself, or of IPv6 its network of 64 bits: one sender owns all 2^64 addresses of it.
 * An IPv4 address written as IPv6 is that IPv4 address; what is no address stays as it is.
 */
export const senderOf = (address: string): string => {
  // The usual one, which has one spelling alone.
  if (isIPv4(address)) return address;
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  return `${parsed.parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
};
