// Events that a client trusts whatever the rules find: its own office, a known call centre, a test
// device.
import ipaddr from "ipaddr.js";
import { addressOfVisitor } from "../../domain/personal/visitor.ts";
import type { FraudExclusion } from "../../domain/reference/reference.ts";
import type { EventReceived } from "../../schemas/generated.ts";

/**
 * The first exclusion that matches the event. The address of a server that sends on behalf of
 * visitors never matches.
 */
export const exclusionOf = (
  exclusions: readonly FraudExclusion[],
  event: EventReceived,
): FraudExclusion | undefined => {
  if (exclusions.length === 0) return undefined;
  const given = addressOfVisitor(event);
  const address = given !== null && ipaddr.isValid(given) ? ipaddr.process(given) : undefined;
  return exclusions.find(({ kind, value }) =>
    kind === "device" ? value === event.did : address !== undefined && holds(value, address),
  );
};

type Address = ReturnType<typeof ipaddr.process>;
type Range = readonly [Address, number];

const holds = (network: string, address: Address): boolean => {
  const range = rangeOf(network);
  return range !== undefined && range[0].kind() === address.kind() && address.match(range[0], range[1]);
};

/** Parses `203.0.113.7`, `203.0.113.0/24` or `2001:db8::/48`. Undefined for anything else. */
export const rangeOf = (network: string): Range | undefined => {
  if (ipaddr.isValidCIDR(network)) return ipaddr.parseCIDR(network);
  if (!ipaddr.isValid(network) || network.includes("/")) return undefined;
  const address = ipaddr.process(network);
  return [address, address.kind() === "ipv4" ? 32 : 128];
};
