// GET /c/<code>: stores the visit in the log, or on the disk while the log is away, and redirects
// the visitor. Links are in memory, so no other store is read.
import { randomBytes, randomUUID } from "node:crypto";
import { type ClickIdKey, mint } from "../../domain/click-id.ts";
import { clickWindowMs, keptClick, type TrackedLink, targetUrl, trackedLink } from "../../domain/links/tracked-link.ts";
import type { Reference } from "../../domain/reference/reference.ts";
import { linkEdges } from "../../edges/link.ts";
import { cookiesIn, setCookie, sharedDomain } from "../../infra/http/direct/cookies.ts";
import { type DirectRoute, headersOf, send, type Visit } from "../../infra/http/direct/direct-host.ts";
import { perSecond } from "../../infra/http/direct/per-second.ts";
import { Problem } from "../../infra/http/problem.ts";
import { senderOf } from "../../infra/http/sender.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import type { AskClientFacts } from "../../modules/intake/path/facts.ts";
import { type HostedEdge, type HostPorts, hostEdge } from "../../modules/intake/path/host-edge.ts";
import type { Path } from "../../modules/intake/path/path.ts";
import type { Quotas } from "../../modules/intake/quotas/quotas.ts";
import type { LinkBody, LinkFacts } from "../../processors/admit/link.ts";
import type { RequestFacts } from "../../processors/admit/request-terms.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";

export interface VisitParts extends HostPorts {
  readonly reference: () => Reference | undefined;
  readonly facts: AskClientFacts;
  /** The first key signs, and all keys verify. */
  readonly keys: readonly [ClickIdKey, ...ClickIdKey[]];
  readonly path: Pick<Path, "store" | "expectRoom">;
  readonly quotas: Pick<Quotas, "spend">;
  readonly count: (counts: RequestCounts) => void;
  readonly clock: () => UnixMs;
}

/** The limit for one address and one client; many visitors share an address. */
const VISITS_A_SECOND = 600;
const COOKIE = "_svc_cid";

export const visitRoute = (parts: VisitParts): DirectRoute => {
  const edge = hostEdge(linkEdges, "link", parts);
  const limit = perSecond(VISITS_A_SECOND, parts.now);
  const answer = async (visit: Visit): Promise<number> => {
    const now = parts.clock();
    const link = linkOf(visit, parts, now);
    if (!limit.take(`${link.client.client_id} ${senderOf(visit.address)}`))
      throw new Problem("rate_limited", "too many visits from this address", { headers: { "Retry-After": "1" } });
    parts.path.expectRoom();
    const client = parts.facts(link.client.client_id, now);
    const click = link.fault === null ? clickFor(visit, link, parts.keys, now) : null;
    const to = targetUrl(link.destination!, visit.query, click?.click_id ?? null);
    if (to === null) throw notFound();
    // Visits of an archived client are not recorded. Beyond its quota a visitor still gets to the
    // shop, with the click id in its cookie.
    const isRecorded = client && parts.quotas.spend({ clientId: client.clientId, ...visitSize(visit) });
    const accepted = isRecorded ? await stored(edge, visit, { client, link, click, now }) : 0;
    send(visit, 302, {
      Location: to,
      "X-Robots-Tag": "noindex",
      ...cookieFor(visit, to, { link, click, client, now }),
    });
    return accepted;
  };
  return {
    path: "/c/",
    methods: {
      GET: async (visit) => {
        const began = performance.now();
        let accepted = 0;
        visit.response.on("close", () => {
          const seconds = (performance.now() - began) / 1_000;
          const { statusCode: status } = visit.response;
          parts.count({ edge: edge.name, status, seconds, accepted, refused: new Map() });
        });
        accepted = await answer(visit);
      },
    },
  };
};
/**
 * A click can earn a commission. A visit has no body: what is stored of it as it was sent is its
 * address, its referrer and its browser.
 */
const visitSize = ({ host, path, query, request: { headers } }: Visit) => {
  const sent = [host, path, query, headers.referer ?? "", headers["user-agent"] ?? ""];
  const bytes = sent.reduce((sum, { length }) => sum + length, 0);
  return { side: "open", events: 1, bytes, movesMoney: true } as const;
};

const notFound = (): Problem => new Problem("not_found", "no link of this code leads anywhere");

/** Throws Problem 404 for an unknown link, and Unavailable before the links are loaded. */
const linkOf = ({ rest: code }: Visit, { reference }: VisitParts, now: UnixMs): TrackedLink => {
  const known = reference();
  if (known === undefined) throw new Unavailable("the links are not known here yet", 1);
  const link = trackedLink(known, code, now);
  if (link === undefined || link.destination === null) throw notFound();
  return link;
};

interface TakenAlong {
  readonly click_id: string;
  readonly clicked_at: UnixMs;
}

const clickFor = ({ request }: Visit, { link }: TrackedLink, keys: VisitParts["keys"], now: UnixMs): TakenAlong =>
  keptClick(cookiesIn(request.headers.cookie, COOKIE), { linkId: link.link_id, now }, keys) ?? {
    click_id: mint(link.link_id, now, eightBytes(), keys[0]),
    clicked_at: now,
  };

/** Random bytes are fetched in stock: asking the system each time costs as much as the redirect. */
const STORE_BYTES = 8_192;
let random = Buffer.alloc(0);
const eightBytes = (): Buffer => {
  if (random.length === 0) random = randomBytes(STORE_BYTES);
  const bytes = random.subarray(0, 8);
  random = random.subarray(8);
  return bytes;
};

interface Click {
  readonly link: TrackedLink;
  readonly click: TakenAlong | null;
  readonly now: UnixMs;
}

/** Resolves with the number of accepted events once they are stored durably. */
const stored = async (
  edge: HostedEdge<LinkBody, LinkFacts, EventReceived>,
  visit: Visit,
  { client, link, click, now }: Click & { readonly client: RequestFacts },
): Promise<number> => {
  const { request, host, path, query, address, isSecure } = visit;
  const body = {
    isHead: request.method === "HEAD",
    url: host === "" ? null : `${isSecure ? "https" : "http"}://${host}${path}${query === "" ? "" : `?${query}`}`,
    did: cookiesIn(request.headers.cookie, "_svc_did")[0],
  };
  // Written out field by field, because V8 stores a spread followed by more fields as a slow object
  // (request-terms.ts).
  const facts = {
    clientId: client.clientId,
    consentDefault: client.consentDefault,
    identify: client.identify,
    link,
    clickId: click?.click_id ?? null,
    visitId: randomUUID(),
  };
  const arrival = {
    receivedAt: now,
    sender: address,
    address,
    header: headersOf(visit),
  };
  const taken = await edge.take({ events: [body] }, arrival, facts);
  await taken.stored;
  return taken.accepted;
};

/**
 * No cookie where the law requires consent before anything is stored on a device; the address has
 * the click id then.
 */
const cookieFor = (
  { host, isSecure }: Visit,
  to: string,
  { link, click, client, now }: Click & { readonly client: RequestFacts | null | undefined },
): { readonly "Set-Cookie"?: string } => {
  if (click === null || !client || client.consentDefault === 0) return {};
  const maxAgeSec = Math.floor((click.clicked_at + clickWindowMs(link.client) - now) / 1_000);
  const domain = sharedDomain(host, new URL(to).hostname);
  return { "Set-Cookie": setCookie({ name: COOKIE, value: click.click_id, maxAgeSec, domain, isSecure }) };
};
