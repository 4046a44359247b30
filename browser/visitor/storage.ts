// Values on the device: in a cookie on the widest parent domain, in local storage where cookies are
// refused, and in memory where both are refused or consent forbids them.
import { doc, quietly, win } from "../guard.ts";

const { hostname, protocol } = win.location;
/** A value with the time of its end in front, in Unix ms, as in local storage. */
const memory: Record<string, string> = {};
let isAllowed = false;

/** Nothing is written to the device until this is called with true. */
export const allowStorage = (allowed: boolean): void => {
  isAllowed = allowed;
};

export const local = (): Storage | undefined => quietly(() => win.localStorage);

const cookie = (name: string): string | undefined =>
  quietly(() => decodeURIComponent((`; ${doc.cookie}`.split(`; ${name}=`)[1] || "").split(";")[0]!));
const setCookie = (name: string, value: string, maxAge: number, domain: string): void => {
  quietly(() => {
    const where = `;Path=/;SameSite=Lax${domain && `;Domain=${domain}`}${protocol === "https:" ? ";Secure" : ""}`;
    doc.cookie = `${name}=${encodeURIComponent(value)};Max-Age=${maxAge}${where}`;
  });
};

let parent: string | undefined;
/** The widest domain that takes a cookie; "" if only the host does, for example an IP address. */
const parentDomain = (): string => {
  if (parent !== undefined) return parent;
  parent = "";
  const labels = /^[\d.]+$|:/.test(hostname) ? [] : hostname.split(".");
  for (let n = labels.length - 2; n >= 0 && parent === ""; n -= 1) {
    const domain = labels.slice(n).join(".");
    setCookie("_svc_t", "1", 9, domain);
    if (cookie("_svc_t")) parent = domain;
    setCookie("_svc_t", "", 0, domain);
  }
  return parent;
};

/** Whether a cookie of the page's parent domain reaches this host. */
export const sharesSite = (host: string): boolean => {
  const domain = isAllowed ? parentDomain() : "";
  return host === hostname || (domain !== "" && `.${host}`.endsWith(`.${domain}`));
};

const alive = (text: string | null | undefined): string | undefined => {
  const [, ends, value] = /^(\d+)\.(.+)$/.exec(text || "") || [];
  return Number(ends) > Date.now() ? value : undefined;
};

/** The value that this page or an earlier one stored under the name. */
export const remembered = (name: string): string | undefined =>
  cookie(name) || quietly(() => alive(local()!.getItem(name))) || alive(memory[name]);

/**
 * Stores the value for `maxAge` seconds on the device, if that is allowed and possible; else until
 * the page closes.
 */
export const remember = (name: string, value: string, maxAge: number): void => {
  memory[name] = `${Date.now() + maxAge * 1_000}.${value}`;
  if (!isAllowed) return;
  setCookie(name, value, maxAge, parentDomain());
  quietly(() => {
    if (cookie(name) === value) local()!.removeItem(name);
    else local()!.setItem(name, memory[name]!);
  });
};

/** Removes the value from the device; this page keeps it in memory. */
export const forget = (name: string): void => {
  setCookie(name, "", 0, parentDomain());
  quietly(() => local()!.removeItem(name));
};
