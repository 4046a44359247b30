// Tells which records are about an erased subject: the forms in which the log may hold a subject,
// and the check of each record.
import type { Conversion, EventAttributed, EventReceived, TopicName } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { leadSubject, spelling, spellingsOf, uuidOf } from "../ids.ts";
import { acrossHashes } from "./across.ts";
import type { Identify } from "./identify.ts";
import { personalHashes, scrubText } from "./personal-data.ts";

export type SubjectKind = "did" | "email" | "phone" | "client_lead_id" | "order_id";
export interface SuppressedSubject {
  readonly client_id: number;
  readonly kind: SubjectKind;
  /** One of the forms that `subjectsOf` returns. */
  readonly subject: string;
  /** Records of events up to this time are hidden. */
  readonly since: UnixMs;
}

const orderSubject = (orderId: string): string => uuidOf("order", orderId);

/**
 * Every form in which the log may hold a subject: the keyed hash of a device; the hashes of an
 * e-mail address or phone number in every form ever used and across clients; the lead key of a
 * client's own lead id. Order ids are plain in the log but hashed in this list. All of the forms
 * must be suppressed.
 */
export const subjectsOf = (kind: SubjectKind, value: string, identify: Identify): readonly string[] => {
  // Records of before ids had one spelling hold them as they were sent.
  const spelt = [...new Set([value, ...spellingsOf(value)])];
  if (kind === "did") return spelt.map(identify.plain);
  if (kind === "order_id") return spelt.map(orderSubject);
  // If the id looks like an e-mail address, the log holds its hash instead.
  if (kind === "client_lead_id")
    return [...new Set(spelt.flatMap((id) => [id, scrubText(id, identify).value]))].map(leadSubject);
  return [...personalHashes(kind, value, identify), ...acrossHashes(kind, value, identify)];
};

/** True if the record, read from this topic, is about an erased subject. */
export type Hides = (event: Recorded<any>, topic: string) => boolean;

type Moments = Map<string, UnixMs>;
interface OfClient {
  readonly devices: Moments;
  /** Keyed hashes of e-mail addresses and phone numbers, wherever they occur. */
  readonly people: Moments;
  readonly leads: Moments;
  readonly orders: Moments;
}

/** Undefined if no subject is erased, so that the check costs nothing. */
export const hidesOf = (subjects: readonly SuppressedSubject[]): Hides | undefined => {
  if (subjects.length === 0) return undefined;
  const clients = new Map<number, OfClient>();
  for (const { client_id, kind, subject, since } of subjects) {
    let own = clients.get(client_id);
    if (own === undefined) {
      own = { devices: new Map(), people: new Map(), leads: new Map(), orders: new Map() };
      clients.set(client_id, own);
    }
    const listOf = {
      did: own.devices,
      email: own.people,
      phone: own.people,
      client_lead_id: own.leads,
      order_id: own.orders,
    };
    listOf[kind].set(subject, Math.max(since, listOf[kind].get(subject) ?? since));
  }
  return (event, topic) => {
    const own = clients.get(event.data.client_id ?? event.data.event?.client_id);
    if (own === undefined) return false;
    return hidesIn[topic as TopicName]?.(own, event) ?? false;
  };
};

const isHidden = (moments: Moments, subject: string | null, at: UnixMs): boolean =>
  subject !== null && at <= (moments.get(subject) ?? -1);

const keyedHashes = /[0-9a-f]{64}/g;
/**
 * A keyed hash cannot occur by chance, so finding it anywhere in a text means finding the person.
 */
const speaksOf = (people: Moments, text: string | null, at: UnixMs): boolean =>
  text !== null && people.size > 0 && (text.match(keyedHashes)?.some((hash) => isHidden(people, hash, at)) ?? false);

/**
 * The key of a lead is made from its e-mail address if it has one. The client's own id is then in
 * its props.
 */
const leadSubjectsIn = ({ t, lead_key: key, props }: EventReceived): readonly string[] => {
  const id = t === "lead_submit" ? ownLeadId(props) : undefined;
  return [...(key === null ? [] : [key]), ...(id === undefined ? [] : [id, spelling(id)].map(leadSubject))];
};
const ownLeadId = (props: string): string | undefined => {
  try {
    const { client_lead_id: id } = Object(JSON.parse(props)) as { readonly client_lead_id?: unknown };
    return typeof id === "string" || typeof id === "number" ? String(id) : undefined;
  } catch {
    return undefined;
  }
};

const isOrderHidden = (orders: Moments, orderId: string, at: UnixMs): boolean =>
  [orderId, spelling(orderId)].some((id) => isHidden(orders, orderSubject(id), at));

const hidesEvent = ({ devices, people, leads, orders }: OfClient, event: EventReceived, at: UnixMs): boolean =>
  isHidden(devices, event.did, at) ||
  (leads.size > 0 && leadSubjectsIn(event).some((subject) => isHidden(leads, subject, at))) ||
  (orders.size > 0 && event.order_id !== null && isOrderHidden(orders, event.order_id, at)) ||
  [event.props, event.url, event.ref].some((text) => speaksOf(people, text, at));

const hidesAttributed = (own: OfClient, { data: { event, enrichment }, at }: Recorded<EventAttributed>): boolean =>
  hidesEvent(own, event, at) ||
  speaksOf(own.people, enrichment.person, at) ||
  enrichment.edges.some(({ identifier }) => isHidden(own.people, identifier, at));

const hidesConversion = ({ devices, people, orders }: OfClient, { data }: Recorded<Conversion>): boolean =>
  isHidden(devices, data.customer, data.occurred_at) ||
  isHidden(devices, data.device, data.occurred_at) ||
  speaksOf(people, data.customer, data.occurred_at) ||
  (orders.size > 0 && data.order_id !== null && isOrderHidden(orders, data.order_id, data.occurred_at));

/** Tests by topic. Ledger entries name conversions and partners but no person, so amounts stay. */
const hidesIn: { readonly [Name in TopicName]?: (own: OfClient, event: Recorded<any>) => boolean } = {
  "events.raw": (own, { data, at }) => hidesEvent(own, data, at),
  "events.restored": (own, { data, at }) => hidesEvent(own, data, at),
  "events.attributed": hidesAttributed,
  conversions: hidesConversion,
};
