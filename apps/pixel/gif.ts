// GET /e: an event in the query of an image, for pages where no script runs.
import { randomUUID } from "node:crypto";
import type { Visit } from "../../infra/http/direct/direct-host.ts";
import { cookieOf } from "./pages.ts";

/** A GIF of one transparent pixel, 43 bytes. */
export const GIF = Buffer.from("R0lGODlhAQABAPAAAAAAAAAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==", "base64");

const TEXTS = ["t", "cid", "event_id", "sid", "ref", "custom_name"] as const;
const INTEGER = /^\d{1,16}$/;

/**
 * Builds the body that POST /e would have for the same event, and its device id. A repeated
 * parameter becomes a list, which admission refuses.
 */
export const bodyOf = (visit: Visit, receivedAt: number): { readonly body: Buffer; readonly did: unknown } => {
  const query = new URLSearchParams(visit.query);
  const one = (name: string): unknown => {
    const values = query.getAll(name);
    return values.length <= 1 ? values[0] : values;
  };
  const did = one("did") ?? cookieOf(visit, "_svc_did") ?? randomUUID();
  const event: Record<string, unknown> = {
    ...Object.fromEntries(TEXTS.map((name) => [name, one(name)])),
    ts: numberIn(one("ts")),
    consent: jsonIn(numberIn(one("consent"))),
    did,
    url: one("url") ?? visit.request.headers.referer,
    svc_click_id: one("svc_click_id") ?? cookieOf(visit, "_svc_cid"),
    props: jsonIn(one("props")) ?? propsIn(query),
  };
  event.ts ??= receivedAt;
  return { body: Buffer.from(JSON.stringify(event)), did };
};

const numberIn = (value: unknown): unknown =>
  typeof value === "string" && INTEGER.test(value) ? Number(value) : value;

/** A text that is no JSON stays a text, which admission refuses by the name of its field. */
const jsonIn = (value: unknown): unknown => {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

/**
 * Props are sent as `props=`, one JSON object, or by hand as `p.<name>=`. Such a query holds only
 * texts, so what has to be an integer is converted.
 */
const NUMBERS: ReadonlySet<string> = new Set(["p.quantity", "p.mask", "p.set", "p.clear"]);
const propsIn = (query: URLSearchParams): object => {
  const props = Object.create(null) as Record<string, unknown>;
  for (const [name, value] of query)
    if (name.startsWith("p.") && name.length > 2) props[name.slice(2)] = NUMBERS.has(name) ? numberIn(value) : value;
  return props;
};
