// Requests to addresses that other people have given. The name is resolved, every address that is
// not public is refused, and the connection goes to the checked address.
import { type LookupAddress, lookup as resolveName } from "node:dns";
import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

/** Networks that requests may reach although they are not public, in CIDR notation. */
export type AllowedNetworks = readonly string[];

export interface OutboundRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Limits the time from resolving the name to the last byte of the answer. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly allowed: AllowedNetworks;
  readonly signal?: AbortSignal;
}
export interface OutboundAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** The address is not allowed, or its answer is not accepted: another try does not help. */
class OutboundRefused extends Error {
  readonly verdict = "fatal";
  constructor(message: string) {
    super(message);
    this.name = "OutboundRefused";
  }
}

/** No answer came in time; another try may get one. */
class OutboundTimeout extends Error {
  readonly verdict = "transient";
  constructor(timeoutMs: number) {
    super(`no whole answer within ${timeoutMs / 1_000} s`);
    this.name = "OutboundTimeout";
  }
}

const SECURE_PORTS: ReadonlySet<string> = new Set(["", "443", "8443"]);

/** True for an address of the public internet, and for one in an allowed network. */
export const mayBeAsked = (address: string, allowed: AllowedNetworks): boolean => {
  if (!ipaddr.isValid(address)) return false;
  return isPublic(address) || isAllowed(address, allowed);
};
/**
 * `::127.0.0.1` and its like: an old form of IPv4 addresses in IPv6 (RFC 4291, 2.5.5.1), which some
 * systems still connect to.
 */
const COMPATIBLE = ipaddr.IPv6.parseCIDR("::/96");
const isPublic = (address: string): boolean => {
  const parsed = ipaddr.parse(address);
  return parsed.range() === "unicast" && !(parsed instanceof ipaddr.IPv6 && parsed.match(COMPATIBLE));
};
const isAllowed = (address: string, allowed: AllowedNetworks): boolean => {
  const parsed = ipaddr.process(address);
  return allowed.some((network) => {
    const [base, bits] = ipaddr.parseCIDR(network);
    return base.kind() === parsed.kind() && parsed.match(base, bits);
  });
};

/**
 * Sends a GET. Public addresses are asked by https at port 443 or 8443; allowed networks at any
 * port, in plain text too. Redirects are not followed: they are returned like other answers. Throws
 * OutboundRefused, OutboundTimeout, and the system's own connection errors.
 */
export const getOutbound = async (asked: OutboundRequest): Promise<OutboundAnswer> => {
  const timeout = AbortSignal.timeout(asked.timeoutMs);
  const signal = asked.signal === undefined ? timeout : AbortSignal.any([timeout, asked.signal]);
  try {
    return await answerTo(asked, signal);
  } catch (error) {
    if (timeout.aborted) throw new OutboundTimeout(asked.timeoutMs);
    throw error;
  }
};

const answerTo = (asked: OutboundRequest, signal: AbortSignal): Promise<OutboundAnswer> =>
  new Promise((resolve, reject) => {
    const { url, headers, maxBytes } = asked;
    const isSecure = url.protocol === "https:";
    if (!isSecure && url.protocol !== "http:") throw new OutboundRefused(`${url.protocol} is not asked: give https`);
    if (url.username !== "" || url.password !== "") throw new OutboundRefused("an address holds no password");
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    // A literal address is connected to without a lookup.
    if (ipaddr.isValid(host)) refuseUnless(url, [host], asked.allowed);
    const send = isSecure ? secureRequest : plainRequest;
    const options = { method: "GET", headers: { ...headers, "accept-encoding": "identity" }, agent: false, signal };
    const request = send(url, { ...options, lookup: lookupOf(url, asked.allowed) }, (answer) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      answer.on("data", (part: Buffer) => {
        bytes += part.length;
        if (bytes > maxBytes) request.destroy(new OutboundRefused(`the answer is larger than ${maxBytes} bytes`));
        else parts.push(part);
      });
      answer.on("end", () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }),
      );
      answer.on("error", reject);
    });
    request.on("error", reject);
    request.end();
  });

/** Resolves a name to its allowed addresses; the connection is made to one of them. */
const lookupOf =
  (url: URL, allowed: AllowedNetworks): LookupFunction =>
  (hostname, options, callback) => {
    resolveName(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) return callback(error, []);
      try {
        const kept = new Set(
          refuseUnless(
            url,
            addresses.map(({ address }) => address),
            allowed,
          ),
        );
        const found = addresses.filter(({ address }) => kept.has(address));
        if (options.all) callback(null, found);
        else callback(null, found[0]!.address, found[0]!.family);
      } catch (refused) {
        callback(refused as NodeJS.ErrnoException, []);
      }
    });
  };

/** Returns the addresses that this URL may go to; throws when there is none. */
const refuseUnless = (url: URL, addresses: readonly string[], allowed: AllowedNetworks): readonly string[] => {
  const isPublicUrl = url.protocol === "https:" && SECURE_PORTS.has(url.port);
  const kept = addresses.filter((address) => isAllowed(address, allowed) || (isPublicUrl && isPublic(address)));
  if (kept.length > 0) return kept;
  throw new OutboundRefused(
    addresses.some(isPublic)
      ? `${url.host} is asked by https at port 443 or 8443 alone`
      : `${url.hostname} is no public address: an operator allows private networks in outbound_networks`,
  );
};
