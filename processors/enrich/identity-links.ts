// The identity links that an event proves between its device and its identifiers, each with its
// evidence, its confidence and its expiry.

import { propsOf } from "../../domain/conditions/props.ts";
import { mayLinkAcross } from "../../domain/personal/across.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import type { EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { dayMs, type Identifiers, keyedHash, profileLifetimeMs, readers } from "./identity.ts";

/** The evidence for an identity link. `method` is stored with each link, so it is never renamed. */
interface Evidence {
  readonly method: string;
  /** Percent. Below 100 the link is only likely and never joins two persons. */
  readonly confidence: number;
  readonly lifetimeMs: number;
}

/**
 * Both ends of the link were in one event from the device itself, or from the server that knows the
 * device, so nothing is guessed.
 */
const certain = 100;
/**
 * A fingerprint is made of twelve coarse signals, so every phone of one model and language has the
 * same one.
 */
const likely = 40;

const evidenceOf = {
  email: { method: "email_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  login: { method: "login_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  phone: { method: "phone_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  // A session ends after half an hour, and its late events arrive within a day.
  session: { method: "session_on_event", confidence: certain, lifetimeMs: dayMs },
  // The default time in which a click may be credited.
  click: { method: "click_on_event", confidence: certain, lifetimeMs: 30 * dayMs },
  email_across: { method: "email_across_clients", confidence: certain, lifetimeMs: profileLifetimeMs },
  phone_across: { method: "phone_across_clients", confidence: certain, lifetimeMs: profileLifetimeMs },
  fingerprint: { method: "fingerprint_of_browser", confidence: likely, lifetimeMs: 30 * dayMs },
} as const satisfies Readonly<Record<string, Evidence>>;
type LinkKind = keyof typeof evidenceOf;

export const noIdentityLinks: readonly IdentityEdge[] = [];
const mayShow = /"(?:phone|fingerprint)":/;

/**
 * The identity links that this event proves, for a device that may be linked. `shown` is the result
 * of `identifiersIn`. Page views and other browsing events are nearly all traffic, so they prove a
 * session or a click only if they also name a person. A click id is not verified here: attribute
 * checks its MAC.
 */
export const identityLinksOf = (
  event: EventReceived,
  shown: Identifiers,
  { identify, at }: { readonly identify: (clientId: number) => Identify; readonly at: UnixMs },
): readonly IdentityEdge[] => {
  const props = mayShow.test(event.props) ? propsOf(event.props) : undefined;
  const phone = hashIn(props?.phone);
  const fingerprint = hashIn(props?.fingerprint);
  const namesOne = shown.email !== null || shown.login !== null || phone !== null || fingerprint !== null;
  if (!namesOne && !readers.has(event.t)) return noIdentityLinks;
  const keyed = (kind: LinkKind, value: string | null): string | null =>
    value === null ? null : identify(event.client_id).plain(`${kind}:${value}`);
  const found: readonly (readonly [LinkKind, string | null])[] = [
    ["email", shown.email],
    ["login", shown.login],
    ["phone", phone],
    ["session", keyed("session", event.sid)],
    ["click", keyed("click", event.click_id)],
    ["fingerprint", keyed("fingerprint", fingerprint)],
  ];
  return found.flatMap(([kind, identifier]) => (identifier === null ? [] : identityLinkOf(kind, identifier, at)));
};

/**
 * Identity links across clients, for a visitor who currently allows them. They need no consent to
 * personalization, because they reveal nothing of the client's own data.
 */
export const linksAcrossClientsOf = (event: EventReceived, consent: number, at: UnixMs): readonly IdentityEdge[] =>
  event.across.length === 0 || !mayLinkAcross(consent) || event.warnings.includes("weak_did")
    ? noIdentityLinks
    : event.across.flatMap(({ kind, identifier }) =>
        kind === "email" || kind === "phone" ? identityLinkOf(`${kind}_across`, identifier, at) : [],
      );

const identityLinkOf = (kind: LinkKind, identifier: string, at: UnixMs): IdentityEdge => {
  const { method, confidence, lifetimeMs } = evidenceOf[kind];
  return { kind, identifier, method, confidence, expires_at: at + lifetimeMs };
};

/** Accepts a phone number that the edge hashed, or a fingerprint that the browser hashed. */
const hashIn = (value: unknown): string | null => (typeof value === "string" && keyedHash.test(value) ? value : null);
