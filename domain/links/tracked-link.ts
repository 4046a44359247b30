// Resolves a tracking link at a moment: the page of its campaign, or the fallback if the link is
// not in use.
import type { UnixMs } from "../../stream/flow.ts";
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

/** Undefined if no link has this code. A code is unique across all clients. */
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

/** How long a click on a link of this client may earn, in milliseconds. */
export const clickWindowMs = ({ click_window_days }: Pick<Client, "click_window_days">): number =>
  click_window_days * DAY_MS;
