// A visit to a tracking link: which link it is at that moment, the click id that the visitor has
// already, and the address that the visitor is sent to.
import type { UnixMs } from "../../stream/flow.ts";
import { type Click, type ClickIdKey, verify } from "../click-id.ts";
import type { Client, Link, Reference } from "../reference/reference.ts";
import { standingFault } from "../reference/standing.ts";

export interface TrackedLink {
  readonly link: Link;
  readonly client: Client;
  /** Why a click on this link earns nothing. Null if it can earn. */
  readonly fault: "partner_inactive" | "campaign_inactive" | "client_inactive" | null;
  /** Null if the link is not in use and neither the campaign nor the client has a fallback. */
  readonly destination: string | null;
}

/** The form of a link code when it is saved (modules/catalog/reference/records.ts). */
const CODE = /^[A-Za-z0-9_-]{3,64}$/;
const DAY_MS = 86_400_000;

/**
 * Resolves a link code: the page of its campaign, or the fallback if the link is not in use.
 * Undefined if no link has this code. A code is unique across all clients.
 */
export const trackedLink = (reference: Reference, code: string, now: UnixMs): TrackedLink | undefined => {
  const linkId = CODE.test(code) ? reference.linkIdOf(code) : undefined;
  if (linkId === undefined) return undefined;
  const known = reference.at(now, now);
  const link = known.link(linkId);
  const client = link && known.client(link.client_id);
  if (link === undefined || client === undefined) return undefined;
  const campaign = known.campaign(link.campaign_id);
  const { client_id, partner_id, campaign_id } = link;
  const fault =
    client.status === "archived"
      ? "client_inactive"
      : standingFault({ client_id, partner_id, campaign_id, link }, known, now);
  const destination = fault === null ? campaign?.destination_url : (campaign?.fallback_url ?? client.fallback_url);
  return { link, client, fault, destination: destination ?? null };
};

/** The time in milliseconds during which a click on a link of this client may earn. */
export const clickWindowMs = ({ click_window_days }: Pick<Client, "click_window_days">): number =>
  click_window_days * DAY_MS;

/** Following a link again within this time counts as the same click. */
const REPEAT_MS = 3_600_000;

export interface KeptClick extends Click {
  readonly click_id: string;
}

/**
 * The first of the visitor's ids that is ours, belongs to this link and is less than an hour old.
 * Later than that, a visit is a new click. Null if there is none.
 */
export const keptClick = (
  given: readonly string[],
  { linkId, now }: { readonly linkId: number; readonly now: UnixMs },
  keys: readonly ClickIdKey[],
): KeptClick | null => {
  for (const click_id of given) {
    const click = verify(click_id, keys);
    if (click?.link_id === linkId && click.clicked_at <= now && now - click.clicked_at < REPEAT_MS)
      return { ...click, click_id };
  }
  return null;
};

/**
 * The parameter of the click id. Names with our prefix are reserved, so a visitor's parameter of
 * that name is dropped.
 */
const CLICK_ID = "svc_click_id";
const RESERVED = /^_?svc_/i;
/** A browser's address is rarely longer. More parameters are not carried over. */
const MOST_QUERY = 4_096;

/**
 * The page's own query comes first, unchanged. The visitor's parameters follow, except reserved
 * names and names that the page already has. Null if the stored page is not an http(s) address.
 */
export const targetUrl = (destination: string, query: string, clickId: string | null): string | null => {
  const url = URL.canParse(destination) ? new URL(destination) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return null;
  if (url.searchParams.has(CLICK_ID)) url.searchParams.delete(CLICK_ID);
  const added = query === "" || query.length > MOST_QUERY ? new URLSearchParams() : carriedOver(query, url);
  if (clickId !== null) added.append(CLICK_ID, clickId);
  const more = added.toString();
  if (more !== "") url.search = url.search === "" ? more : `${url.search}&${more}`;
  return url.href;
};

const carriedOver = (query: string, { searchParams }: URL): URLSearchParams => {
  const own = new Set(searchParams.keys());
  return new URLSearchParams(
    [...new URLSearchParams(query)].filter(([name]) => !own.has(name) && !RESERVED.test(name)),
  );
};
