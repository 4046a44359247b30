// Whom a device belongs to: identifiers that its events show, and what of it is remembered.

import { propsOf } from "../../domain/conditions/props.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type MemoryOf, type Recorded, remembers, type UnixMs } from "../../stream/flow.ts";

type IdentifierKind = "email" | "login";

/** Keyed hashes, hex; null: the event does not show one. */
export type Identifiers = Readonly<Record<IdentifierKind, string | null>>;

/** What is remembered of a device: each identifier with the event that showed it last. */
interface ShownIdentifier {
  readonly identifier: string;
  readonly event_id: string;
  readonly at: UnixMs;
}
export interface Person extends Readonly<Record<IdentifierKind, ShownIdentifier | null>> {
  /** Identifiers that a decision took from the device, the newest last. */
  readonly unlinked?: readonly string[];
}

const kinds = ["email", "login"] as const;
const noOne: Person = { email: null, login: null };
/** What an event shows that may not be linked, or shows nothing. */
export const noIdentifiers: Identifiers = { email: null, login: null };

export const dayMs = 86_400_000;
/**
 * An edge that no event shows again is let go with the profile it belongs to: 90 days after it was
 * last seen (docs/design/contracts.md, "Retention").
 */
export const profileLifetimeMs = 90 * dayMs;
/**
 * Who is logged in shows the same identifier with every event: the memory moves once a day, the
 * edge too.
 */
const renewedAfterMs = dayMs;
const mayIdentify = /"(?:email|user_id|login_id)":/;
export const keyedHash = /^[0-9a-f]{64}$/;
/** Every account that a sender could not name would become one person. */
const placeholders: ReadonlySet<string> = new Set([
  "",
  "0",
  "null",
  "none",
  "undefined",
  "anonymous",
  "guest",
  "n/a",
  "nan",
  "-1",
  "false",
]);
const longestLogin = 256;

/**
 * A device without a real id would join strangers, and so would an identifier without a visitor's
 * agreement to be known.
 */
const analyticsAndPersonalization = 0x03;
export const isLinkable = (event: EventReceived, consent: number): boolean =>
  (consent & analyticsAndPersonalization) === analyticsAndPersonalization && !event.warnings.includes("weak_did");

/**
 * E-mails were hashed at the edge under the client's pepper; account ids are the sender's own and
 * get their key here.
 */
export const identifiersIn = (event: EventReceived, identify: (clientId: number) => Identify): Identifiers => {
  if (!mayIdentify.test(event.props)) return noIdentifiers;
  const props = propsOf(event.props);
  const email = typeof props.email === "string" && keyedHash.test(props.email) ? props.email : null;
  const login = accountIn(props.user_id) ?? accountIn(props.login_id);
  return { email, login: login === null ? null : identify(event.client_id).plain(`login:${login}`) };
};

const accountIn = (value: unknown): string | null => {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : "";
  return text.length > longestLogin || placeholders.has(text.toLowerCase()) ? null : text;
};

/**
 * A person by the strongest identifier: two devices that showed one e-mail are the same person,
 * whatever accounts they used. What the event shows itself comes before what its device is
 * remembered for.
 */
export const personOf = (shown: Identifiers, known: Person | null, at: UnixMs): string | null => {
  if (shown.email !== null) return `email:${shown.email}`;
  if (shown.login !== null && known?.login?.identifier !== shown.login) return `login:${shown.login}`;
  for (const kind of kinds) {
    const found = known?.[kind];
    if (found && at - found.at <= profileLifetimeMs) return `${kind}:${found.identifier}`;
  }
  return null;
};

/** No device has so many decisions about it; of more the oldest are forgotten. */
const mostUnlinked = 20;

/** What an event shows, less what decisions took from its device. */
export const stillLinked = (shown: Identifiers, known: Person | null): Identifiers => {
  const taken = known?.unlinked;
  if (taken === undefined || shown === noIdentifiers) return shown;
  const left = (kind: IdentifierKind): string | null => (taken.includes(shown[kind] ?? "") ? null : shown[kind]);
  return { email: left("email"), login: left("login") };
};

/** What the device is known by after such a decision; decided twice is decided once. */
export const personWithout = (known: Person | null, identifier: string): Person => {
  const { unlinked = [], ...before } = known ?? noOne;
  const left = (kind: IdentifierKind): ShownIdentifier | null =>
    before[kind]?.identifier === identifier ? null : before[kind];
  const others = unlinked.filter((one) => one !== identifier);
  return { email: left("email"), login: left("login"), unlinked: [...others, identifier].slice(-mostUnlinked) };
};

/**
 * What the device is known by after this event: the same object when nothing is new. Another value
 * of a kind that is known is another person at the same device, and nothing of the one before goes
 * over to them.
 */
export const personAfter = (
  known: Person | null,
  identifiers: Identifiers,
  event: Recorded<EventReceived>,
): Person | null => {
  const isOther = kinds.some(
    (kind) => identifiers[kind] !== null && known?.[kind] != null && known[kind].identifier !== identifiers[kind],
  );
  // An event that comes late does not take a device back from the person who was seen on it since.
  if (isOther && kinds.some((kind) => (known?.[kind]?.at ?? 0) > event.at)) return known;
  const before = isOther ? withoutAny(known) : (known ?? noOne);
  let after: Person = before;
  for (const kind of kinds) {
    const identifier = identifiers[kind];
    if (identifier === null) continue;
    const shown = before[kind];
    if (shown === null || event.at - shown.at >= renewedAfterMs)
      after = { ...after, [kind]: { identifier, event_id: event.id, at: event.at } };
  }
  return after === noOne ? known : after;
};

const withoutAny = (known: Person | null): Person =>
  known?.unlinked === undefined ? noOne : { ...noOne, unlinked: known.unlinked };

/**
 * Claims and clicks must know their person, and whatever else shows an identifier teaches it. Page
 * views and what belongs to browsing are nearly all traffic: they read no memory, and are of the
 * person whom they name themselves.
 */
export const readers: ReadonlySet<string> = new Set(["click", "purchase", "ext_purchase", "lead_submit", "install"]);
const browsing: ReadonlySet<string> = new Set([
  "page_view",
  "view_product",
  "add_to_cart",
  "begin_checkout",
  "form_start",
]);
const hasUse = ({ data: event }: Recorded<EventReceived>): boolean =>
  !event.warnings.includes("weak_did") &&
  (readers.has(event.t) || (!browsing.has(event.t) && mayIdentify.test(event.props)) || unlinkedBy(event) !== null);

type PackedIdentifier = [string, string, UnixMs] | null;
const packed = (shown: ShownIdentifier | null | undefined): PackedIdentifier =>
  shown ? [shown.identifier, shown.event_id, shown.at] : null;
const unpacked = (kept: PackedIdentifier | undefined): ShownIdentifier | null =>
  kept ? { identifier: kept[0], event_id: kept[1], at: kept[2] } : null;

/** About 130 bytes an identifier. */
export const person: MemoryOf<Person | null> = remembers<Person | null>({
  name: "person",
  keyedBy: "client_id:did",
  driver: "fast",
  initial: null,
  when: hasUse,
  encode: (known) =>
    Buffer.from(
      JSON.stringify([packed(known?.email), packed(known?.login), ...(known?.unlinked ? [known.unlinked] : [])]),
    ),
  decode: (bytes) => {
    const kept = JSON.parse(Buffer.from(bytes).toString()) as [
      PackedIdentifier?,
      PackedIdentifier?,
      (readonly string[])?,
    ];
    const [email, login, unlinked] = kept;
    return { email: unpacked(email), login: unpacked(login), ...(unlinked && { unlinked }) };
  },
});
