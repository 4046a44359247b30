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
  const event = {
    ...Object.fromEntries(TEXTS.map((name) => [name, one(name)])),
    ts: numberIn(one("ts")) ?? receivedAt,
    did,
    url: one("url") ?? visit.request.headers.referer,
    svc_click_id: one("svc_click_id") ?? cookieOf(visit, "_svc_cid"),
  };
  const consent = numberIn(one("consent"));
  const given = consent === undefined ? "" : `,"consent":${jsonOf(consent)}`;
  const props = jsonOf(one("props") ?? propsIn(query));
  return { body: Buffer.from(`${JSON.stringify(event).slice(0, -1)}${given},"props":${props}}`), did };
};

const numberIn = (value: unknown): unknown =>
  typeof value === "string" && INTEGER.test(value) ? Number(value) : value;

/**
 * JSON is handed on as it came, because a text that nests deep enough can be read and not written.
 * A text that is no JSON stays a text, which admission refuses by the name of its field.
 */
const jsonOf = (value: unknown): string => {
  if (typeof value === "string")
    try {
      JSON.parse(value);
      return value;
    } catch {
      // It is written as a text below.
    }
  return JSON.stringify(value);
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
