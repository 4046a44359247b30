// Normalises network addresses to one spelling: dotted IPv4 or compressed lower-case IPv6.
import ipaddr from "ipaddr.js";

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const IPV6 = /^[0-9a-f:.]{2,45}$/i;

/**
 * Returns the address in the spelling of the log, or undefined if the text is not an address. An
 * IPv4 address inside IPv6 becomes the IPv4 address. Zones (fe80::1%eth0) and hex, octal or decimal
 * spellings (0x7f.1) are refused, because other readers would see a different address in them.
 */
export const addressOf = (text: string): string | undefined => {
  if (IPV4.test(text)) return text;
  return IPV6.test(text) && text.includes(":") && ipaddr.IPv6.isValid(text)
    ? ipaddr.process(text).toString()
    : undefined;
};
