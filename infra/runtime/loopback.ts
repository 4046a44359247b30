// Whether a host name is this machine: there, and nowhere else, plain text is no risk.
import ipaddr from "ipaddr.js";

/** Of a URL's `hostname`, so an IPv6 address may stand in brackets. */
export const isLoopback = (hostname: string): boolean => {
  const name = hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return ipaddr.isValid(name) && ipaddr.process(name).range() === "loopback";
};
