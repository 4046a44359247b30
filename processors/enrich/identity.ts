// Decides which person a device belongs to, from the identifiers in its events and the ones that
// are remembered.

import { propsOf } from "../../domain/conditions/props.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type MemoryOf, type Recorded, remembers, type UnixMs } from "../../stream/flow.ts";

type IdentifierKind = "email" | "login";

/** Keyed hashes in hex. Null if the event does not contain the identifier. */
export type Identifiers = Readonly<Record<IdentifierKind, string | null>>;

/** One remembered identifier of a device, with the last event that contained it. */
interface ShownIdentifier {
  readonly identifier: string;
  readonly event_id: string;
  readonly at: UnixMs;
}
export interface Person extends Readonly<Record<IdentifierKind, ShownIdentifier | null>> {
  /** Identifiers that a decision removed from the device, newest last. */
  readonly unlinked?: readonly string[];
}

const kinds = ["email", "login"] as const;
const noOne: Person = { email: null, login: null };
/** For an event that contains no identifier or must not be linked. */
export const noIdentifiers: Identifiers = { email: null, login: null };

export const dayMs = 86_400_000;
/**
 * An identity link that no event confirms is deleted with its profile, 90 days after it was last
 * seen (docs/design/contracts.md, "Retention").
 */
export const profileLifetimeMs = 90 * dayMs;
/**
 * A logged-in visitor sends the same identifier with every event, so memory and identity link are
 * renewed only once a day.
 */
const renewedAfterMs = dayMs;
const mayIdentify = /"(?:email|user_id|login_id)":/;
export const keyedHash = /^[0-9a-f]{64}$/;
/**
 * Account ids that a sender uses when it has none. Without this list all these accounts would
 * become one person.
 */
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
 * Linking needs a real device id, because otherwise strangers would be joined, and the visitor's
 * consent to both purposes.
 */
const analyticsAndPersonalization = 0x03;
export const isLinkable = (event: EventReceived, consent: number): boolean =>
  (consent & analyticsAndPersonalization) === analyticsAndPersonalization && !event.warnings.includes("weak_did");

/**
 * The edge has already hashed e-mail addresses with the client's pepper. Account ids are the
 * sender's own and are hashed here.
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
 * A person is named by the strongest identifier: two devices with the same e-mail are one person,
 * whatever accounts they used. Identifiers on the event take precedence over remembered ones.
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

/** No device has this many decisions about it. If one does, the oldest are forgotten. */
const mostUnlinked = 20;

/** The identifiers of an event, without those that decisions removed from its device. */
export const stillLinked = (shown: Identifiers, known: Person | null): Identifiers => {
  const taken = known?.unlinked;
  if (taken === undefined || shown === noIdentifiers) return shown;
  const left = (kind: IdentifierKind): string | null => (taken.includes(shown[kind] ?? "") ? null : shown[kind]);
  return { email: left("email"), login: left("login") };
};

/** The remembered identifiers after such a decision. Repeating the decision changes nothing. */
export const personWithout = (known: Person | null, identifier: string): Person => {
  const { unlinked = [], ...before } = known ?? noOne;
  const left = (kind: IdentifierKind): ShownIdentifier | null =>
    before[kind]?.identifier === identifier ? null : before[kind];
  const others = unlinked.filter((one) => one !== identifier);
  return { email: left("email"), login: left("login"), unlinked: [...others, identifier].slice(-mostUnlinked) };
};

/**
 * The remembered identifiers after this event. Returns the same object if nothing changed. A
 * different value of a known kind means that another person uses the device, so none of the
 * previous person's identifiers are kept.
 */
export const personAfter = (
  known: Person | null,
  identifiers: Identifiers,
  event: Recorded<EventReceived>,
): Person | null => {
  const isOther = kinds.some(
    (kind) => identifiers[kind] !== null && known?.[kind] != null && known[kind].identifier !== identifiers[kind],
  );
  // A late event must not take the device back from the person who was seen on it since.
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
 * Claims and clicks read the person of their device, and any other event with an identifier updates
 * it. Page views and other browsing events are nearly all traffic: they read no memory, and belong
 * to the person that they name themselves, if any.
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
