// The kind of network that an address belongs to, from the operator's list of ranges and autonomous
// systems.
import ipaddr from "ipaddr.js";

/** isp: the autonomous system is known and not on the list. unknown: there is no data. */
export type NetworkClass = "hosting" | "vpn" | "isp" | "unknown";

export interface Networks {
  /**
   * The class that the list gives to an address in canonical form, or to its autonomous system. The
   * narrowest range wins, and the system is used last.
   */
  readonly classOf: (address: string, asn: number | null) => NetworkClass | undefined;
}
/** A line that could not be used, with its number starting at 1. */
export interface NetworkProblem {
  readonly line: number;
  readonly text: string;
}

/** For a shop, TOR exits are like other anonymising networks. */
const classes: Readonly<Record<string, NetworkClass>> = { hosting: "hosting", vpn: "vpn", tor: "vpn", isp: "isp" };
const system = /^AS(\d{1,10})$/i;

/**
 * Prefixes as bit texts, grouped by length. A look-up reads one map entry for each length that the
 * list uses.
 */
interface Family {
  readonly ranges: Map<number, Map<string, NetworkClass>>;
  lengths: readonly number[];
}
const family = (): Family => ({ ranges: new Map(), lengths: [] });

/** The first `length` bits of an address as text. */
const prefixOf = (bytes: readonly number[], length: number): string => {
  const whole = length >> 3;
  const rest = length & 7;
  const head = bytes.slice(0, whole).join(".");
  return rest === 0 ? head : `${head}.${bytes[whole]! >> (8 - rest)}`;
};

/**
 * Parses a list. Each line is a range (`203.0.113.0/24`, or one address) or a system (`AS64500`),
 * followed by `hosting`, `vpn`, `tor` or `isp`; `#` begins a comment. Other lines are reported and
 * skipped, so that one typing error does not disable the whole list.
 */
export const networksOf = (
  text: string,
): { readonly networks: Networks; readonly problems: readonly NetworkProblem[] } => {
  const problems: NetworkProblem[] = [];
  const four = family();
  const six = family();
  const systems = new Map<number, NetworkClass>();
  for (const [n, whole] of text.split("\n").entries()) {
    const line = whole.replace(/#.*/, "").trim();
    if (line === "") continue;
    const [what = "", name = "", ...more] = line.split(/[\s,;]+/);
    const kind = Object.hasOwn(classes, name.toLowerCase()) ? classes[name.toLowerCase()] : undefined;
    const asn = system.exec(what)?.[1];
    const range = asn === undefined ? rangeOf(what) : undefined;
    if (kind === undefined || more.length > 0 || (asn === undefined && range === undefined))
      problems.push({ line: n + 1, text: whole.slice(0, 80) });
    else if (asn !== undefined) systems.set(Number(asn), kind);
    else {
      const { bytes, length } = range!;
      const { ranges } = bytes.length === 4 ? four : six;
      const known = ranges.get(length) ?? new Map<string, NetworkClass>();
      ranges.set(length, known.set(prefixOf(bytes, length), kind));
    }
  }
  for (const one of [four, six]) one.lengths = [...one.ranges.keys()].sort((a, b) => b - a);
  return {
    problems,
    networks: {
      classOf: (address, asn) => {
        const bytes = ipaddr.parse(address).toByteArray();
        const { ranges, lengths } = bytes.length === 4 ? four : six;
        for (const length of lengths) {
          const found = ranges.get(length)?.get(prefixOf(bytes, length));
          if (found !== undefined) return found;
        }
        return asn === null ? undefined : systems.get(asn);
      },
    },
  };
};

const rangeOf = (text: string): { readonly bytes: readonly number[]; readonly length: number } | undefined => {
  if (!ipaddr.isValidCIDR(text) && !ipaddr.isValid(text)) return undefined;
  const [address, length] = ipaddr.isValidCIDR(text)
    ? ipaddr.parseCIDR(text)
    : ([ipaddr.parse(text), undefined] as const);
  const bytes = address.toByteArray();
  return { bytes, length: length ?? bytes.length * 8 };
};
