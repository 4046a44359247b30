// GET /e: an event in the query of an image, for pages where no script runs.
import { randomUUID } from "node:crypto";
import type { Visit } from "../../infra/http/direct/direct-host.ts";
import { cookieOf } from "./pages.ts";

/** A GIF of one transparent pixel, 43 bytes. */
export const GIF = Buffer.from("R0lGODlhAQABAPAAAAAAAAAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==", "base64");

const TEXTS = ["t", "cid", "event_id", "sid", "ref", "custom_name"] as const;
const NUMBERS = ["ts", "consent"] as const;
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
  const number = (name: string): unknown => {
    const value = one(name);
    return typeof value === "string" && INTEGER.test(value) ? Number(value) : value;
  };
  const did = one("did") ?? cookieOf(visit, "_svc_did") ?? randomUUID();
  const event: Record<string, unknown> = {
    ...Object.fromEntries(TEXTS.map((name) => [name, one(name)])),
    ...Object.fromEntries(NUMBERS.map((name) => [name, number(name)])),
    did,
    url: one("url") ?? visit.request.headers.referer,
    svc_click_id: one("svc_click_id") ?? cookieOf(visit, "_svc_cid"),
    props: propsIn(query),
  };
  event.ts ??= receivedAt;
  return { body: Buffer.from(JSON.stringify(event)), did };
};

/**
 * Props are sent as `p.<name>=`. A query holds only texts, so the quantity is converted to an
 * integer.
 */
const propsIn = (query: URLSearchParams): object => {
  const props = Object.create(null) as Record<string, unknown>;
  for (const [name, value] of query)
    if (name.startsWith("p.") && name.length > 2)
      props[name.slice(2)] = name === "p.quantity" && INTEGER.test(value) ? Number(value) : value;
  return props;
};
