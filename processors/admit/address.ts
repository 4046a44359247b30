// Network addresses in one spelling: dotted IPv4, compressed lower-case IPv6, nothing else.
import ipaddr from "ipaddr.js";

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const IPV6 = /^[0-9a-f:.]{2,45}$/i;

/**
 * The address as the log spells it, or undefined when the text is none. An IPv4 address inside IPv6
 * is the IPv4 one. Zones (fe80::1%eth0), hex, octal and decimal spellings (0x7f.1) are refused:
 * other readers would not see the address in them that we see.
 */
export const addressOf = (text: string): string | undefined => {
  if (IPV4.test(text)) return text;
  return IPV6.test(text) && text.includes(":") && ipaddr.IPv6.isValid(text)
    ? ipaddr.process(text).toString()
    : undefined;
};
