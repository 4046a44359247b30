// Deterministic ids: UUIDs computed from the parts that identify a thing, the ids of events and
// leads, and the ids by which two messages meet: one spelling and one list of placeholders.
import { hash } from "node:crypto";

/**
 * A UUID (version 8 of RFC 9562, "custom") from the SHA-256 of its parts. Each part is prefixed
 * with its length, so ("ab", "c") and ("a", "bc") differ. A number counts as its decimal text. This
 * must never change: ids in the log depend on it.
 */
export const uuidOf = (...parts: readonly (string | number)[]): string => {
  let text = "";
  for (const part of parts) {
    const piece = typeof part === "string" ? part : String(part);
    text += `${piece.length}:${piece}`;
  }
  const hex = hash("sha256", text, "hex");
  const variant = VARIANT[hex.charCodeAt(16) & 3];
  const [first, second, third] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(13, 16)];
  return `${first}-${second}-8${third}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
};
/** RFC 9562 fixes two bits of this digit, so four values are left. */
const VARIANT = "89ab";

/** The allowed form of a sender's event id. */
export const EVENT_ID = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Two clients may use the same event id, so the client is part of the hash. One client must not use
 * an id for two events.
 */
export const sentEventId = (clientId: number, senderEventId: string): string => uuidOf(clientId, senderEventId);

/**
 * The id of an event that a page or an app has sent. Anyone may do that under any id, so such an id
 * is never that of an event of the client's own systems. `content` keeps two conversions of pages
 * apart that share a sender's id; the same one sent again has the same content.
 */
export const pageEventId = (clientId: number, senderEventId: string, ...content: readonly string[]): string =>
  uuidOf(clientId, "page", senderEventId, ...content);

/**
 * The id that all endpoints share for an event: a page's copy and a server's meet by it where they
 * have no order, lead or device, and a refund names either by it.
 */
export const sharedEventId = (event: {
  readonly client_id: number;
  readonly client_side: boolean;
  readonly sender_event_id: string | null;
  readonly event_id: string;
}): string =>
  event.client_side && event.sender_event_id !== null
    ? sentEventId(event.client_id, event.sender_event_id)
    : event.event_id;

/** The same for a row of a partner's file. */
export const uploadEventId = (clientId: number, partnerId: number, senderEventId: string): string =>
  uuidOf(clientId, "upload", partnerId, senderEventId);

/**
 * The id of a row that undone imports have brought before, so many times: their event stays in the
 * log, and this one is another.
 */
export const againEventId = (rowId: string, times: number): string => uuidOf("upload again", rowId, times);

/**
 * The id of the n-th record that a stage makes from one input. It is the same however often it is
 * computed.
 */
export const derivedId = (stage: string, inputId: string, output: string, n: number): string =>
  uuidOf(stage, inputId, output, n);

/**
 * Ids such as `cnv_...` (docs/design/contracts.md, "Answers"): the prefix, then the 32 digits of
 * the UUID.
 */
export const prefixed = (prefix: string, uuid: string): string => `${prefix}_${uuid.replaceAll("-", "")}`;

/**
 * An event without an id is recognised by these fields when it is sent again. Address, browser,
 * session and consent are left out because they may have changed meanwhile.
 */
export const contentEventId = (event: {
  readonly client_id: number;
  readonly did: string;
  readonly t: string;
  readonly custom_name: string | null;
  readonly ts: number;
  readonly order_id: string | null;
  readonly url: string | null;
  readonly props: unknown;
}): string =>
  uuidOf(
    event.client_id,
    event.did,
    event.custom_name ?? event.t,
    event.ts,
    event.order_id === null ? `url:${event.url ?? ""}` : `order:${event.order_id}`,
    canonical(event.props),
  );

/** JSON with sorted keys, because the key order only depends on the sender's library. */
const canonical = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const held = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(held)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(held[key])}`)
    .join(",")}}`;
};

/**
 * The key by which the browser's copy of a lead and the signed push are recognised as the same
 * lead: the hashed e-mail address with the product, otherwise the client's own lead id. Null if
 * there is neither; then the event is a separate lead. The settle stage decides how far apart in
 * time two leads with one key may be. `emailHash` is the keyed hash (64 hex digits).
 */
export const leadKey = (lead: {
  readonly emailHash: string | null;
  readonly product: string | null;
  readonly clientLeadId: string | null;
}): string | null => {
  if (lead.emailHash !== null) return uuidOf("email", lead.emailHash, lead.product ?? "");
  return lead.clientLeadId === null ? null : leadSubject(lead.clientLeadId);
};

/**
 * A UUID that replaces the client's own lead id where the id itself must not appear. The id has its
 * spelling already.
 */
export const leadSubject = (clientLeadId: string): string => uuidOf("lead", clientLeadId);

/**
 * `led_` and 32 digits. The same lead of a client always has the same id, so a second push finds
 * the first. `subject` comes from `leadSubject`.
 */
export const leadIdOf = (clientId: number, subject: string): string =>
  prefixed("led", uuidOf("led", clientId, subject));

/** Most ids are plain, so that nothing has to be changed. */
const PLAIN = /^(?:[!-~](?:[ -~]*[!-~])?)?$/;
const FORMAT_CHARACTERS = /\p{Cf}/gu;

/**
 * The same id always has the same spelling, whatever spaces, accent encoding or invisible
 * characters its sender uses.
 */
export const spelling = (text: string): string =>
  PLAIN.test(text) ? text : text.replace(FORMAT_CHARACTERS, "").normalize("NFC").trim();

/**
 * The spelling of order ids before invisible characters were left out. Ids of events are made from
 * it, so that what is stored keeps its id.
 */
export const spellingOfBefore = (text: string): string => text.trim().normalize("NFC");
/** Every spelling under which an order may be stored, the one that is closer to the text first. */
export const spellingsOf = (text: string): readonly string[] => [...new Set([spellingOfBefore(text), spelling(text)])];

/** Lower case, because placeholders are compared in lower case. */
export const placeholderTexts: readonly string[] = [
  ...["null", "undefined", "none", "0", "n/a", "test"],
  ...["nan", "-", "[object object]", "false"],
];
const PLACEHOLDERS: ReadonlySet<string> = new Set(placeholderTexts);
const LONGEST = Math.max(...placeholderTexts.map(({ length }) => length));
/** A regular expression for Postgres too: nothing but zeros, or the zeros of an empty UUID. */
export const zerosForm = "^0[0-]*$";
const ZEROS = new RegExp(zerosForm);

/** The product of a sale that should have named one, and has a placeholder instead. */
export const UNNAMED_PRODUCT = "-";

/**
 * True for what senders write in place of an id. Without this check, all that has the same
 * placeholder would become one order, product, refund or lead. The text has its spelling already.
 */
export const isPlaceholder = (spelt: string): boolean =>
  (spelt.length <= LONGEST && PLACEHOLDERS.has(spelt.toLowerCase())) || ZEROS.test(spelt);

/** The id by which a message meets others. Null if it is absent, empty or a placeholder. */
export const meetingId = (text: string | null | undefined): string | null => {
  if (text === null || text === undefined) return null;
  const spelt = spelling(text);
  return spelt === "" || isPlaceholder(spelt) ? null : spelt;
};
