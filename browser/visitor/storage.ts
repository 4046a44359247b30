// What is remembered on the device: a cookie on the widest parent domain, local storage where
// cookies are refused, the page's memory where both are, or where nothing may be kept.
import { doc, quietly, win } from "../guard.ts";

const { hostname, protocol } = win.location;
/** A value stands behind the moment in ms when it ends, as in local storage. */
const memory: Record<string, string> = {};
let isAllowed = false;

/** Until this is called with true nothing is written to the device. */
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
/** The widest domain that takes a cookie; "" for the host alone, as for an IP address. */
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

/** What was remembered under this name, by this page or one before. */
export const remembered = (name: string): string | undefined =>
  cookie(name) || quietly(() => alive(local()!.getItem(name))) || alive(memory[name]);

/** For this long in seconds, if storage is allowed and the browser has any; else for the page. */
export const remember = (name: string, value: string, maxAge: number): void => {
  memory[name] = `${Date.now() + maxAge * 1_000}.${value}`;
  if (!isAllowed) return;
  setCookie(name, value, maxAge, parentDomain());
  quietly(() => {
    if (cookie(name) === value) local()!.removeItem(name);
    else local()!.setItem(name, memory[name]!);
  });
};

/** From the device alone: the page goes on with what it knows. */
export const forget = (name: string): void => {
  setCookie(name, "", 0, parentDomain());
  quietly(() => local()!.removeItem(name));
};
