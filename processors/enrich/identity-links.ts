// The identity edges that an event proves: what its device showed, how that is known, how sure it
// is, and until when it holds.

import { propsOf } from "../../domain/conditions/props.ts";
import { mayLinkAcross } from "../../domain/personal/across.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import type { EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { dayMs, type Identifiers, keyedHash, profileLifetimeMs, readers } from "./identity.ts";

/** How an edge of a kind is known. Stored with each edge, so never renamed. */
interface Evidence {
  readonly method: string;
  /** Percent. Below 100 it is only likely, and joins no persons. */
  readonly confidence: number;
  readonly lifetimeMs: number;
}

/**
 * Both ends of the edge were in one event of the device itself or of the server that knows it:
 * there is nothing to guess.
 */
const certain = 100;
/** Twelve coarse signals: every phone of one model and language has the same. */
const likely = 40;

const evidenceOf = {
  email: { method: "email_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  login: { method: "login_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  phone: { method: "phone_on_event", confidence: certain, lifetimeMs: profileLifetimeMs },
  // A session ends after half an hour; what comes late of it comes within a day.
  session: { method: "session_on_event", confidence: certain, lifetimeMs: dayMs },
  // As long as a click may be credited where a client has not chosen otherwise.
  click: { method: "click_on_event", confidence: certain, lifetimeMs: 30 * dayMs },
  email_across: { method: "email_across_clients", confidence: certain, lifetimeMs: profileLifetimeMs },
  phone_across: { method: "phone_across_clients", confidence: certain, lifetimeMs: profileLifetimeMs },
  fingerprint: { method: "fingerprint_of_browser", confidence: likely, lifetimeMs: 30 * dayMs },
} as const satisfies Readonly<Record<string, Evidence>>;
type LinkKind = keyof typeof evidenceOf;

export const noIdentityLinks: readonly IdentityEdge[] = [];
const mayShow = /"(?:phone|fingerprint)":/;

/**
 * The edges whose evidence this event is, of a device that may be linked; `shown` is what
 * `identifiersIn` found. Page views and what belongs to browsing are nearly all traffic: they prove
 * a session or a click only where they name a person too. A click id is only as good as its MAC,
 * which attribute reads.
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
 * Edges across clients, of a visitor who allows them at that moment: consent to personalization is
 * not asked, for nothing of the client's own is shown by them.
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

/** A phone as the edge keyed it, a fingerprint as the browser hashed it. */
const hashIn = (value: unknown): string | null => (typeof value === "string" && keyedHash.test(value) ? value : null);
