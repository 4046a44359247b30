// Turns one tracking event as a sender wrote it into a record of the log, or into a refusal that
// names the broken rule.

import {
  contentEventId,
  EVENT_ID,
  isPlaceholder,
  leadKey,
  meetingId,
  pageEventId,
  sentEventId,
  spelling,
  spellingOfBefore,
} from "../../domain/ids.ts";
import { acrossIdentifiers, mayLinkAcross } from "../../domain/personal/across.ts";
import { scrub, scrubText, TooMuchPersonalData } from "../../domain/personal/personal-data.ts";
import { PERSONAL_FORM } from "../../domain/personal/personal-form.ts";
import type { AcrossIdentifier, EventReceived } from "../../schemas/generated.ts";
import type { Admission, Refusal, UnixMs } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import { CUSTOM_NAME, type EventType, eventTypeOf, NEAR_TYPE, nearTypeOf } from "./event-types.ts";
import { providerNames } from "./payments/providers.ts";
import { fittingId, liftCustom, liftKnown, type Props } from "./props.ts";
import { RefusedEvent, refuse } from "./refuse.ts";
import { MAX_USER_AGENT, type Terms } from "./request-terms.ts";
import { checkShape, cut } from "./shape.ts";

type JsonObject = Readonly<Record<string, unknown>>;

const MAX_DID = 256;
const MAX_CLICK_ID = 256;
const MAX_SESSION = 256;
/** 1 to 64 visible characters, with spaces allowed between them. */
const PRINTABLE_NAME = /^[^\p{C}\p{Z}](?:[^\p{C}]{0,62}[^\p{C}\p{Z}])?$/u;
const LEAD_EMAIL = /^[0-9a-f]{64}$/;
/**
 * Device ids that a sender uses when it has none, in addition to the placeholders of every id.
 * Without them all these devices would become one person.
 */
const GUESTS: ReadonlySet<string> = new Set(["anonymous", "guest"]);
export const isWeakDid = (did: string): boolean => {
  const spelt = spelling(did);
  return spelt === "" || isPlaceholder(spelt) || (spelt.length <= 9 && GUESTS.has(spelt.toLowerCase()));
};
const tooMuch = (problem: TooMuchPersonalData): Refusal => ({
  code: "event_too_large",
  field: null,
  message: problem.message,
  retryable: false,
});
const noWarnings: readonly string[] = [];
const noProps: Props = {};
const noIdentifiers: readonly AcrossIdentifier[] = [];

/**
 * Applies every rule of docs/design/contracts.md, "Batch", in the order in which a sender would fix
 * them. The refusal names the first broken rule.
 */
export const admitEvent = (given: unknown, terms: Terms): Admission<EventReceived> => {
  try {
    if (typeof given !== "object" || given === null || Array.isArray(given))
      return refuse("bad_event", null, "is not an object: send an event like {t, ts, cid, did, props}");
    const data = recordOf(given as JsonObject, terms);
    return { kind: "accepted", id: data.event_id, at: Math.min(data.ts, terms.receivedAt), data };
  } catch (problem) {
    if (problem instanceof RefusedEvent) return { kind: "refused", id: senderIdIn(given), refusal: problem.refusal };
    if (problem instanceof TooMuchPersonalData)
      return { kind: "refused", id: senderIdIn(given), refusal: tooMuch(problem) };
    throw problem;
  }
};

/**
 * Reads the fields that decide whether the event is accepted, in the order in which a sender would
 * fix them.
 */
const checkedFields = (given: JsonObject, terms: Terms, warnings: string[]) => {
  const { mayBePersonal } = checkShape(given, terms.texts);
  const senderEventId = ownEventId(eventIdOf(given.event_id), terms, warnings);
  const sentType = typeOf(given.t, terms);
  const ts = timeOf(given.ts, terms);
  checkClient(given.cid, terms);
  const did = deviceOf(given.did, terms, warnings);

  const sent = propsOf(given.props);
  const props = mayBePersonal ? withoutPersonalData(sent, terms, warnings) : sent;
  const clean = (text: string | null): string | null =>
    text === null || !mayBePersonal ? text : cleanText(text, terms, warnings);
  const url = clean(textOf(given.url, "url") ?? (typeof props.url === "string" && props.url !== "" ? props.url : null));
  const name = sentType === "custom" ? nameIn(props) : clean(sentType);
  if (name !== null && isOfPages(terms) && NOT_OF_PAGES.has(name)) refuse("not_from_pixel", "t", NOT_FROM_PAGES);
  const known = name === null ? undefined : eventTypeOf(name);
  if (known !== undefined && sentType === "custom") warnings.push("custom_name_is_type");
  const lifted =
    known === undefined
      ? liftCustom(props, terms.segments, warnings)
      : liftKnown(terms.takesBareSales === true ? bareSale(known) : known, props, terms.segments, url, warnings);
  if (known === undefined && name !== null && nearTypeOf(name) !== null) warnings.push(NEAR_TYPE);
  const custom_name = known === undefined ? name : null;
  const t = known === undefined || name === null ? "custom" : name;
  const ip = addressIn(given.ip);
  const ua = textOf(given.ua, "ua");
  const consent = consentOf(given.consent, terms);
  if (ts > terms.receivedAt) warnings.push("ts_clamped");
  // One literal: a spread of the fields makes this step three times as dear.
  // biome-ignore format: the fields are many, and none needs a line of its own
  return {
    senderEventId, did, sentDid: given.did as string, t, custom_name, ts, url, ip, ua, consent,
    lifted, sent, props, mayBePersonal, clean,
  };
};

const recordOf = (given: JsonObject, terms: Terms): EventReceived => {
  const warnings: string[] = terms.warnings === undefined ? [] : [...terms.warnings];
  const checked = checkedFields(given, terms, warnings);
  const { senderEventId, t, url, ip, ua, consent, lifted, sent, props, mayBePersonal, clean } = checked;
  return {
    event_id: eventIdIn(checked, terms),
    sender_event_id: senderEventId,
    client_id: terms.clientId,
    did: checked.did,
    t,
    custom_name: checked.custom_name,
    ts: checked.ts,
    source: terms.source,
    client_side: terms.isClientSide,
    url,
    ref: clean(textOf(given.ref, "ref")),
    ip: ip ?? terms.address,
    ua: ua === null ? requestUserAgent(terms, warnings) : shortened(clean(ua), MAX_USER_AGENT),
    ip_source: ip !== null ? "event" : terms.address !== null ? "request" : null,
    ua_source: ua !== null ? "event" : terms.userAgent !== null ? "request" : null,
    sid: shortened(clean(sessionOf(given.sid)), MAX_SESSION),
    click_id: shortened(clean(clickIdOf(given.svc_click_id) ?? clickIdOf(props.svc_click_id)), MAX_CLICK_ID),
    consent,
    order_id: lifted.order_id,
    product_id: lifted.product_id,
    product_line: lifted.product_line,
    quantity: lifted.quantity,
    value_minor: lifted.value_minor,
    currency: lifted.currency,
    partner_ref: null,
    dedup_key: null,
    lead_key: t === "lead_submit" ? leadKeyIn(props) : null,
    sale_hash: null,
    import_id: null,
    props: props === noProps ? "{}" : JSON.stringify(props),
    warnings: warnings.length === 0 ? noWarnings : warnings,
    batch_id: terms.batchId,
    personal_form: PERSONAL_FORM,
    by_partner: null,
    across: mayBePersonal && mayLinkAcross(consent) ? acrossIdentifiers(sent, terms.identify) : noIdentifiers,
  };
};

/** The id of an event that brings none is derived from its content. */
const eventIdIn = (checked: ReturnType<typeof checkedFields>, terms: Terms): string => {
  const { senderEventId, sentDid, t, custom_name, ts, url, props } = checked;
  const { clientId } = terms;
  if (senderEventId === null) {
    // As they were sent, so that what is stored keeps its id.
    const did = spelling(sentDid) === sentDid ? checked.did : terms.identify.plain(sentDid);
    const order_id = spellingOfBefore(fittingId(props.order_id) ?? "") || null;
    return contentEventId({ client_id: clientId, did, t, custom_name, ts, order_id, url, props });
  }
  return isOfPages(terms)
    ? pageEventId(clientId, senderEventId, ...contentOfPages(checked))
    : sentEventId(clientId, senderEventId);
};

/**
 * What is part of the id of an event that may earn, so that no stranger who knows the sender's id
 * of a real one takes it first: settle would set the real one aside, because an id is that of one
 * event for ever. Other events move no money, and their id can be computed from the sender's.
 */
const contentOfPages = ({ t, custom_name, did, lifted, props }: ReturnType<typeof checkedFields>): readonly string[] =>
  MAY_EARN.has(t)
    ? [
        ...[t, custom_name ?? "", did, lifted.order_id ?? "", lifted.product_id ?? ""],
        ...[
          (t === "lead_submit" ? leadKeyIn(props) : null) ?? "",
          `${lifted.value_minor ?? ""}`,
          lifted.currency ?? "",
        ],
      ]
    : [];
const MAY_EARN: ReadonlySet<string> = new Set(["purchase", "install", "lead_submit", "custom"]);

/**
 * Anyone can send anything in the name of a page. So clicks come from tracking links only, and
 * refunds from the client's own systems. The type counts, by whatever field it was named.
 */
export const NOT_OF_PAGES: ReadonlySet<string> = new Set(["click", "click_filtered", "refund", "ext_purchase"]);
const NOT_FROM_PAGES =
  "is no type that pages and apps send: give an event of your own another name, or send it from a server";
const isOfPages = ({ isClientSide, source }: Terms): boolean => isClientSide && source !== "link";

const bareSale = (type: EventType): EventType =>
  type.required.includes("revenue") ? { ...type, required: ["revenue"] } : type;

const eventIdOf = (given: unknown): string | null => {
  if (given === undefined || given === null) return null;
  return typeof given === "string" && EVENT_ID.test(given)
    ? given
    : refuse("bad_event_id", "event_id", "must be 1 to 128 of A-Z a-z 0-9 . _ : - or left out");
};
const RESERVED = new RegExp(`^(?:(?:${providerNames.join("|")}):|led_[0-9a-f]{32}$|pull-)`);
/**
 * The ids of payment notices, leads and pulled sales are theirs: a page or a partner that knows one
 * must not write their row. Without its id the event is known by its content.
 */
const ownEventId = (id: string | null, { isClientSide, source }: Terms, warnings: string[]): string | null => {
  const isOfClient = !isClientSide && source !== "upload";
  if (id === null || isOfClient || !RESERVED.test(id)) return id;
  warnings.push("event_id_reserved");
  return null;
};
const senderIdIn = (given: unknown): string | null => {
  const id = typeof given === "object" && given !== null ? (given as JsonObject).event_id : null;
  return typeof id === "string" ? cut(id, 128) : null;
};

const typeOf = (given: unknown, { takesAnyName }: Terms): string =>
  typeof given === "string" && (CUSTOM_NAME.test(given) || (takesAnyName === true && PRINTABLE_NAME.test(given)))
    ? given
    : refuse(
        "unknown_type",
        "t",
        "is no event type: send one of docs/events.md, or a name like signup (a-z first, then a-z 0-9 _ . : -)",
      );

const timeOf = (given: unknown, terms: Terms): UnixMs => {
  if (!Number.isInteger(given)) return refuse("bad_ts", "ts", "must be an integer: Unix time in milliseconds");
  const ts = given as number;
  if (ts > terms.newest)
    return refuse("ts_in_future", "ts", "lies more than 24 hours ahead: send Unix time in milliseconds, UTC");
  if (ts < terms.oldest)
    return refuse(
      "ts_too_old",
      "ts",
      "lies more than 24 months back, which is as long as events are kept: send milliseconds, not seconds",
    );
  return ts;
};

const checkClient = (given: unknown, terms: Terms): void => {
  if (given !== terms.clientId && given !== String(terms.clientId))
    refuse("wrong_client", "cid", "is not the client of this token: send the client id that the token was issued for");
};

const deviceOf = (given: unknown, terms: Terms, warnings: string[]): string => {
  if (typeof given !== "string" || given.length < 1 || given.length > MAX_DID)
    return refuse("bad_did", "did", `must be a text of 1 to ${MAX_DID} characters that stays the same for a device`);
  if (isWeakDid(given)) warnings.push("weak_did");
  return terms.identify.plain(spelling(given));
};

const propsOf = (given: unknown): Props => {
  if (given === undefined || given === null) return noProps;
  return typeof given === "object" && !Array.isArray(given)
    ? (given as Props)
    : refuse("bad_props", "props", "must be an object");
};

const textOf = (given: unknown, field: string): string | null => {
  if (given === undefined || given === null || given === "") return null;
  return typeof given === "string" ? given : refuse("bad_text", field, "must be a text");
};

const addressIn = (given: unknown): string | null => {
  if (given === undefined || given === null || given === "") return null;
  return (
    (typeof given === "string" ? addressOf(given) : undefined) ??
    refuse("bad_ip", "ip", "is no IPv4 or IPv6 address: leave it out when unknown")
  );
};

const consentOf = (given: unknown, terms: Terms): number => {
  if (given === undefined || given === null) return terms.consentDefault;
  return Number.isInteger(given) && (given as number) >= 0 && (given as number) <= 255
    ? (given as number)
    : refuse("bad_consent", "consent", "must be an integer from 0 to 255, or left out");
};

/**
 * Keeps the sent value. An invalid click id gets the reason `bad_click_id` in the attribute stage,
 * and the event still counts.
 */
const clickIdOf = (given: unknown): string | null => {
  if (given === undefined || given === null || given === "") return null;
  return typeof given === "object" ? JSON.stringify(given) : String(given);
};

const sessionOf = (given: unknown): string | null =>
  typeof given === "string" && given !== "" ? given : typeof given === "number" ? String(given) : null;

/**
 * The prop `name` is hashed because it is a person's name (docs/design/contracts.md, "Personal
 * data"). So the name of a custom event must be in one of these props.
 */
const nameIn = (props: Props): string | null => {
  for (const name of [props.custom_name, props.event_name])
    if (typeof name === "string" && CUSTOM_NAME.test(name)) return name;
  return null;
};

const leadKeyIn = (props: Props): string | null =>
  leadKey({
    emailHash: typeof props.email === "string" && LEAD_EMAIL.test(props.email) ? props.email : null,
    product: typeof props.product === "string" ? meetingId(props.product) : null,
    clientLeadId: meetingId(fittingId(props.client_lead_id)),
  });

const warnHashed = (warnings: string[]): void => {
  if (!warnings.includes("pii_hashed")) warnings.push("pii_hashed");
};
const withoutPersonalData = (props: Props, terms: Terms, warnings: string[]): Props => {
  const scrubbed = scrub(props, terms.identify);
  if (scrubbed.wasPlain) warnHashed(warnings);
  return scrubbed.value as Props;
};
const cleanText = (text: string, terms: Terms, warnings: string[]): string => {
  const scrubbed = scrubText(text, terms.identify);
  if (scrubbed.wasPlain) warnHashed(warnings);
  return scrubbed.value;
};

const requestUserAgent = ({ userAgent }: Terms, warnings: string[]): string | null => {
  if (userAgent?.wasPlain) warnHashed(warnings);
  return userAgent?.text ?? null;
};

/**
 * Call this after the search for personal data, which would not recognise half of an e-mail
 * address.
 */
const shortened = (text: string | null, length: number): string | null => (text === null ? null : cut(text, length));
