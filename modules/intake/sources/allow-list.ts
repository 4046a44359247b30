// The addresses from which a source may send: single ones and CIDR blocks.
import ipaddr from "ipaddr.js";

type Block = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Undefined if the text is neither an address nor a block. */
const blockOf = (text: string): Block | undefined => {
  if (ipaddr.isValidCIDR(text)) {
    const [address, bits] = ipaddr.parseCIDR(text);
    return [address, bits];
  }
  if (!ipaddr.isValid(text) || !/[.:].*[.:]/.test(text)) return undefined;
  const address = ipaddr.process(text);
  return [address, address.kind() === "ipv4" ? 32 : 128];
};

export const isBlock = (text: string): boolean => blockOf(text) !== undefined;

/** Whether an address is on the list; an empty list allows every address. */
export const allowing = (list: readonly string[]): ((address: string) => boolean) => {
  const blocks = list.map(blockOf).filter((block) => block !== undefined);
  if (list.length === 0) return () => true;
  return (text) => {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    return blocks.some(([block, bits]) => block.kind() === address.kind() && address.match(block as never, bits));
  };
};
