// The identity of a sender without a credential, by which it is counted, and the id of its request.
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** The id that a sender gave its request, or a new one. */
export const requestIdOf = ({ "x-request-id": given }: IncomingHttpHeaders): string =>
  typeof given === "string" && REQUEST_ID.test(given) ? given : randomUUID();

/**
 * The address itself, or for IPv6 its network of 64 bits, since one sender owns all 2^64 addresses
 * of it. An IPv4 address in IPv6 form becomes the IPv4 address; a text that is no address stays
 * unchanged.
 */
export const senderOf = (address: string): string => {
  // The usual form, which has only one spelling.
  if (isIPv4(address)) return address;
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? networkOfIPv6(parsed, 4) : parsed.toString();
};

/**
 * The network that an address belongs to, of 24 bits (IPv4) or 48 (IPv6): what one sender with
 * several addresses usually has. A text that is no address stays unchanged.
 */
export const networkOf = (address: string): string => {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv6) return networkOfIPv6(parsed, 3);
  return `${parsed.toByteArray().slice(0, 3).join(".")}.0/24`;
};

const networkOfIPv6 = ({ parts }: ipaddr.IPv6, count: number): string =>
  `${parts
    .slice(0, count)
    .map((part) => part.toString(16))
    .join(":")}::/${16 * count}`;
