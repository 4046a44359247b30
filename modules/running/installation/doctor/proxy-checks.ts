// Checks whom the hosts believe when a request names another sender than where it comes from.
import ipaddr from "ipaddr.js";
import { variables } from "../../../../infra/runtime/environment.ts";
import { bad, type Finding, good } from "./finding.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const PUBLISHED = ["TRACKING_URL", "PIXEL_URL", "INGEST_URL", "UPLOAD_URL"] as const;
const NAME_YOURS = "name the addresses of your proxies alone, e.g. TRUSTED_PROXIES=10.0.0.7,10.0.0.8";
/** A shorter prefix of public addresses holds more than the proxies of one installation. */
const SHORTEST_PUBLIC = { ipv4: 16, ipv6: 32 };

const holdsStrangers = (entry: string): boolean => {
  if (!ipaddr.isValidCIDR(entry)) return false;
  const [base, bits] = ipaddr.parseCIDR(entry);
  return base.range() === "unicast" && bits < SHORTEST_PUBLIC[base.kind()];
};

/** Hosts serve https by keys of their own, or a proxy in front of them does. */
const isBehindProxy = (environment: Environment): boolean =>
  !environment.TLS_CERT_FILE && PUBLISHED.some((name) => environment[name]?.startsWith("https:"));

export const checkProxies = (environment: Environment): Finding => {
  const read = variables.TRUSTED_PROXIES.schema.safeParse(environment.TRUSTED_PROXIES ?? "");
  if (!read.success)
    return bad(
      `TRUSTED_PROXIES ${read.error.issues[0]!.message}: with this list no host starts, since anyone could be believed`,
      NAME_YOURS,
    );
  const wide = read.data.filter(holdsStrangers);
  if (wide.length > 0)
    return bad(`${wide.join(", ")} of TRUSTED_PROXIES: any sender in there is believed to be whom it says`, NAME_YOURS);
  if (read.data.length > 0) return good(`${read.data.join(", ")} may say who the sender is`);
  return isBehindProxy(environment)
    ? bad(
        "the hosts are behind a proxy that ends TLS, and TRUSTED_PROXIES is empty: all senders share its address",
        NAME_YOURS,
      )
    : good("none: each sender has the address that it comes from");
};
