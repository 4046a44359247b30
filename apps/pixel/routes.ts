// The routes of the host of pixels. All events get the same answer once they are stored, whether
// they were accepted or not.
import type { OutgoingHttpHeaders } from "node:http";
import { type DirectRoute, headersOf, send, type Visit } from "../../infra/http/direct/direct-host.ts";
import { Problem } from "../../infra/http/problem.ts";
import { withBody } from "../../infra/http/read-body.ts";
import { networkOf, senderOf } from "../../infra/http/sender.ts";
import { QuotaSpent, Unavailable } from "../../infra/runtime/errors.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import type { Arrival } from "../../stream/flow.ts";
import { bodyOf, GIF } from "./gif.ts";
import type { PixelRequest, TakenEvents, TakeRequest } from "./intake.ts";
import { ANY_ORIGIN, corsOf, deviceCookie, originOf } from "./pages.ts";
import { type RecordingPorts, takeRecording } from "./recording.ts";
import { type Script, scriptRoute } from "./script.ts";

export interface PixelRoutes {
  readonly take: TakeRequest;
  /** The public part of a client's configuration; undefined if there is no such client. */
  readonly configOf: (clientId: number) => { readonly replay_enabled?: boolean } | undefined;
  /** Scripts by path; undefined if a script was not built. */
  readonly scripts: Readonly<Record<`/${string}`, Script | undefined>>;
  readonly replay: RecordingPorts;
  readonly count: (counts: RequestCounts) => void;
  readonly now: () => number;
}

/** Of larger bodies the first 64 KiB are kept. Of bodies beyond this limit nothing is kept. */
const READ_BYTES = 256 * 1024;
const MAX_BYTES = 64 * 1024;

/** The script that pages name, and the scripts that it loads later. */
const SCRIPTS = ["/r.js", "/vitals.js", "/replay.js"] as const;

export const routesOf = (parts: PixelRoutes): readonly DirectRoute[] => [
  ...SCRIPTS.map((path) => scriptRoute(path, parts.scripts[path])),
  {
    path: "/e",
    methods: { GET: image(parts), POST: events(parts), OPTIONS: preflight("GET, HEAD, POST, OPTIONS") },
    // The page can read a problem too.
    headers: ANY_ORIGIN,
  },
  { path: "/ping", methods: { GET: (visit) => send(visit, 204, { ...ANY_ORIGIN, "Timing-Allow-Origin": "*" }) } },
  { path: "/config", methods: { GET: config(parts), OPTIONS: preflight("GET, HEAD, OPTIONS") }, headers: ANY_ORIGIN },
  { path: "/replay", methods: { POST: takeRecording(parts.replay), OPTIONS: preflight("POST, OPTIONS") } },
];

const events =
  ({ take, count, now }: PixelRoutes) =>
  async (visit: Visit): Promise<void> => {
    const done = counted(visit, count);
    const sentBy = { address: visit.address };
    const taken = await withBody(visit.request, sentBy, (raw) => take(sentOf(visit, raw, now())), READ_BYTES).catch(
      (error: unknown) => {
        if (!isMalformed(error)) throw error;
        return take(sentOf(visit, Buffer.alloc(0), now()));
      },
    );
    done(taken);
    const cookie = taken.isSeen ? deviceCookie(visit, taken.did) : {};
    send(visit, 204, { ...corsOf(visit, taken.domains), ...cookie });
  };

/** The body is malformed or too large. It is kept as a dead letter and answered like any other. */
const isMalformed = (error: unknown): boolean =>
  error instanceof Problem &&
  (error.kind === "payload_too_large" || (error.kind === "bad_request" && error.headers.Connection === undefined));

/**
 * Always answers with the image, because the page shows no problem to a reader. Its status says
 * whether the event was taken: a browser shows the image of any status, and repeats none.
 */
const image =
  ({ take, count, now }: PixelRoutes) =>
  async (visit: Visit): Promise<void> => {
    const headers = { ...ANY_ORIGIN, "Content-Type": "image/gif", "Cross-Origin-Resource-Policy": "cross-origin" };
    if (visit.request.method === "HEAD") return send(visit, 200, headers, GIF);
    const done = counted(visit, count);
    const receivedAt = now();
    const { body, did } = bodyOf(visit, receivedAt);
    try {
      const taken = await take(sentOf(visit, body, receivedAt));
      done(taken);
      send(visit, 200, { ...headers, ...(taken.isSeen ? deviceCookie(visit, did) : {}) }, GIF);
    } catch (error) {
      const refused = refusalOf(error);
      if (refused === undefined) throw error;
      send(visit, refused.status, { ...headers, "Retry-After": refused.retryAfter }, GIF);
    }
  };

const refusalOf = (error: unknown): { readonly status: number; readonly retryAfter: string } | undefined => {
  if (error instanceof Unavailable) return { status: 503, retryAfter: String(error.retryAfterSec) };
  if (error instanceof QuotaSpent) return { status: 429, retryAfter: String(error.retryAfterSec) };
  return error instanceof Problem && error.kind === "rate_limited"
    ? { status: 429, retryAfter: String(error.headers["Retry-After"] ?? 1) }
    : undefined;
};

const config =
  ({ configOf, replay, now }: PixelRoutes) =>
  (visit: Visit): void => {
    const [given, ...more] = new URLSearchParams(visit.query).getAll("cid");
    const clientId = more.length === 0 && /^[1-9]\d{0,9}$/.test(given ?? "") ? Number(given) : 0;
    const found = configOf(clientId);
    if (found === undefined) throw new Problem("not_found", "cid names no client: send ?cid=<client id>");
    const isRecorded = found.replay_enabled === true;
    const network = networkOf(visit.address);
    // A ticket is good in the network of its visitor alone, so no shared cache may keep it.
    const shown = isRecorded
      ? { ...found, replay_ticket: replay.tickets.ticketOf({ clientId, network, now: now() }) }
      : found;
    const headers = {
      ...ANY_ORIGIN,
      "Cache-Control": `${isRecorded ? "private" : "public"}, max-age=300`,
      "Content-Type": "application/json",
    };
    send(visit, 200, headers, JSON.stringify(shown));
  };

const preflight =
  (methods: string) =>
  (visit: Visit): void => {
    const headers: OutgoingHttpHeaders = {
      ...corsOf(visit, []),
      Allow: methods,
      "Access-Control-Allow-Methods": methods,
      "Access-Control-Allow-Headers": "content-type",
      "Access-Control-Max-Age": "86400",
    };
    send(visit, 204, headers);
  };

const sentOf = (visit: Visit, raw: Buffer, receivedAt: number): PixelRequest => {
  const arrival: Arrival = {
    receivedAt,
    sender: senderOf(visit.address),
    address: visit.address,
    header: headersOf(visit),
  };
  return { body: raw, isTooLarge: raw.length > MAX_BYTES, arrival, origin: originOf(visit) };
};

/** Counts the request when its answer has been sent, with the events passed to `done`. */
const counted = ({ response }: Visit, count: PixelRoutes["count"]) => {
  const began = performance.now();
  let taken: Pick<TakenEvents, "accepted" | "refused"> = { accepted: 0, refused: new Map() };
  response.on("close", () => {
    const seconds = (performance.now() - began) / 1_000;
    count({ edge: "pixel", status: response.statusCode, seconds, accepted: taken.accepted, refused: taken.refused });
  });
  return (found: typeof taken): void => {
    taken = found;
  };
};
