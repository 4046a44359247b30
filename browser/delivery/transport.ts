// The ways to send events to the pixel host. Each reports whether the host has the events.
import { toJson } from "../data/json.ts";
import { later, nav, quietly, runs, win } from "../guard.ts";
import { sharesSite } from "../visitor/storage.ts";
import type { PixelEvent, QueuedEvent } from "./queue.ts";

/**
 * `refused`: the host will never take it, so sending it again is useless. `busy`: the host answered
 * and may take it later. `failed`: this way did not reach the host.
 */
type Outcome = "delivered" | "refused" | "busy" | "failed";
type OnOutcome = (outcome: Outcome) => void;

/** With text/plain a browser sends no preflight request first. */
const TYPE = "text/plain;charset=UTF-8";
const PATIENCE = 10_000;
const GIF_URL = 6_000;
const fetchNow = win.fetch;

const outcomeOf = (status: number): Outcome => {
  if (status === 0) return "failed";
  if (status < 300) return "delivered";
  return status === 429 || status >= 500 ? "busy" : "refused";
};

const once = (done: OnOutcome): OnOutcome => {
  let isDone = false;
  return (outcome) => {
    if (!isDone) done(outcome);
    isDone = true;
  };
};

export interface PixelHost {
  /** The address of POST /e and GET /e. */
  readonly url: string;
  readonly clientId: number;
}
type Transport = (host: PixelHost, body: string, batch: readonly QueuedEvent[], done: OnOutcome) => void;

/**
 * Requests carry credentials if the host is of the same site, because only then does its Set-Cookie
 * hold.
 */
const isOfSite = (url: string): boolean => {
  const { protocol, hostname } = new URL(url);
  return win.isSecureContext && protocol === win.location.protocol && sharesSite(hostname);
};

const byFetch: Transport = ({ url }, body, _batch, done) => {
  const credentials = isOfSite(url) ? "include" : "omit";
  const options: RequestInit = {
    method: "POST",
    body,
    keepalive: true,
    credentials,
    headers: { "Content-Type": TYPE },
  };
  fetchNow.call(win, url, options).then(
    ({ status }) => quietly(() => done(outcomeOf(status))),
    () => quietly(() => done("failed")),
  );
};

const byXhr: Transport = ({ url }, body, _batch, done) => {
  const request = new XMLHttpRequest();
  request.open("POST", url);
  request.timeout = PATIENCE;
  request.withCredentials = isOfSite(url);
  request.setRequestHeader("Content-Type", TYPE);
  request.onload = () => done(outcomeOf(request.status));
  request.onerror = request.ontimeout = request.onabort = () => done("failed");
  request.send(body);
};

/** Requests one image for each event: the only way on a page whose policy forbids connections. */
const byGif: Transport = (host, _body, batch, done) => {
  let open = batch.length;
  let failed = 0;
  for (const { event } of batch) {
    const picture = new Image();
    const end = (isLost: boolean) => () => {
      failed += isLost ? 1 : 0;
      open -= 1;
      if (open === 0) done(failed === 0 ? "delivered" : "failed");
    };
    picture.onload = end(false);
    picture.onerror = end(true);
    picture.src = gifUrl(host, event);
  }
};

const GIF_FIELDS = ["t", "event_id", "ts", "did", "sid", "svc_click_id", "url", "ref"] as const;
/**
 * The event as the query of an image. Choice and props are JSON, so that they arrive with their
 * types; props that do not fit travel one by one as texts, as many as there is room for.
 */
const gifUrl = ({ url, clientId }: PixelHost, event: PixelEvent): string => {
  let text = `${url}?cid=${clientId}`;
  const add = (name: string, value: string): boolean => {
    const part = `&${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
    const fits = text.length + part.length <= GIF_URL;
    if (fits) text += part;
    return fits;
  };
  if (event.consent !== undefined) add("consent", toJson(event.consent));
  for (const name of GIF_FIELDS) if (event[name] !== undefined) add(name, `${event[name]}`.slice(0, 1_000));
  if (add("props", toJson(event.props))) return text;
  for (const [name, value] of Object.entries(event.props))
    if (value !== undefined && typeof value !== "object") add(`p.${name}`, `${value}`.slice(0, 1_000));
  return text;
};

const ways: readonly Transport[] = [byFetch, byXhr, byGif];

/** Tries each way in turn until one delivers. A way that the page forbids fails at once. */
export const deliver: Transport = (host, body, batch, done) => {
  const tryFrom = (n: number): void => {
    const way = ways[n];
    if (way === undefined) {
      done("failed");
      return;
    }
    const next = once((outcome) => {
      if (outcome === "failed") tryFrom(n + 1);
      else done(outcome);
    });
    later(PATIENCE, () => next("failed"));
    if (!runs(() => way(host, body, batch, next))) next("failed");
  };
  tryFrom(0);
};

/**
 * For a page that closes: true if the browser took the body, which does not mean that it arrives.
 */
export const handOver = (host: PixelHost, body: string): boolean =>
  quietly(() => nav.sendBeacon(host.url, body)) === true || runs(() => byFetch(host, body, [], () => undefined));

export const isOffline = (): boolean => nav.onLine === false;
