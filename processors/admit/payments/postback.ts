// The edge of POST /postback/:processor: a successful payment becomes a purchase, a refund or
// dispute becomes a refund, and every other notice is ignored.
import { isUtf8 } from "node:buffer";
import type { EventReceived } from "../../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody, type Refusal } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { RefusedEvent, refuse } from "../refuse.ts";
import { type RequestFacts, requestTerms, type Terms } from "../request-terms.ts";
import { type Texts, textsOf } from "../shape.ts";
import { isObject } from "./fields.ts";
import type { Json, Money, PaymentProvider, PaymentSucceeded, PaymentTakenBack } from "./provider.ts";
import { providerOf } from "./providers.ts";

type PaymentMove = PaymentSucceeded | PaymentTakenBack;

export interface PostbackBody {
  readonly clientId: number;
  readonly processor: PaymentProvider;
  /**
   * The payments and refunds of the notice, or why one cannot be read. Empty if the notice is
   * ignored.
   */
  readonly events: readonly (PaymentMove | RefusedEvent)[];
  /** The provider's id of the notice. Null if it cannot be read. */
  readonly notice: string | null;
  readonly texts: Texts;
}
/** The metadata keys that a shop may set on its payments. */
export const metadataFields: readonly string[] = [
  ...["order_id", "svc_click_id", "did", "product_id", "quantity", "product_line"],
];
export interface PostbackFacts extends RequestFacts {
  /** The shop's own names for our metadata keys, where they differ. */
  readonly metadataKeys?: Readonly<Record<string, string>>;
  /** True if the sender has shown more than a signature, e.g. a password. */
  readonly isSenderKnown?: boolean;
}

const NEWLINE = 0x0a;
const HEAD = /^([a-z]{2,40}) ([1-9]\d{0,9})$/;

/**
 * Puts the provider and client from the URL in front of the body, so that a dead letter keeps both.
 */
export const envelopeOf = (processor: string, clientId: number, body: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`${processor} ${clientId}\n`), body]);

/** Parses an envelope. Throws BadBody if the body is not a JSON object. */
export const acceptsPostback = (envelope: unknown): PostbackBody => {
  if (!(envelope instanceof Uint8Array)) throw new BadBody("bad_json", "", "the body is empty");
  const bytes = Buffer.from(envelope.buffer, envelope.byteOffset, envelope.byteLength);
  const end = bytes.indexOf(NEWLINE);
  const [, name = "", id = ""] = HEAD.exec(bytes.toString("latin1", 0, Math.max(end, 0))) ?? [];
  const processor = providerOf(name);
  if (processor === undefined) throw new BadBody("unknown_processor", "", "no processor of this name is known");
  const text = textOf(bytes.subarray(end + 1));
  const found = noticeIn(processor, text);
  return {
    clientId: Number(id),
    processor,
    events: found instanceof RefusedEvent ? [found] : found.found,
    notice: found instanceof RefusedEvent ? null : found.notice,
    texts: textsOf(text),
  };
};

const textOf = (bytes: Buffer): string => {
  if (bytes.length === 0) throw new BadBody("bad_json", "", "the body is empty: send the notice as JSON");
  if (!isUtf8(bytes)) throw new BadBody("bad_json", "", "the body is not UTF-8");
  return bytes.toString("utf8");
};

const noticeIn = (processor: PaymentProvider, text: string) => {
  const body = jsonIn(text);
  if (body === undefined) throw new BadBody("bad_json", "", "the body is no JSON object: send the notice as JSON");
  try {
    return processor.read(body);
  } catch (problem) {
    if (problem instanceof RefusedEvent) return problem;
    throw problem;
  }
};

/** Undefined if the text is not a JSON object. */
const jsonIn = (text: string): Json | undefined => {
  try {
    const body: unknown = JSON.parse(text);
    return isObject(body) ? body : undefined;
  } catch {
    return undefined;
  }
};

/**
 * The path to fetch the data of a notice from. Undefined if they are signed themselves or the body
 * is not a notice.
 */
export const lookUpOf = (processor: PaymentProvider, raw: Buffer): string | undefined => {
  const body = processor.lookUp === undefined ? undefined : jsonIn(raw.toString("utf8"));
  return body === undefined ? undefined : processor.lookUp!(body);
};
/**
 * The notice with the fetched data in place of its own. This is what is admitted, and what a dead
 * letter keeps.
 */
export const lookedUp = (raw: Buffer, data: Json): Buffer =>
  Buffer.from(JSON.stringify({ ...jsonIn(raw.toString("utf8")), data }));

/** Admits a notice. Pure: the same notice always gives the same events. */
export function* admitPostback(
  { processor, events, texts }: PostbackBody,
  arrival: Arrival,
  facts: PostbackFacts,
): Generator<Admission<EventReceived>, void> {
  // Address and browser belong to the provider's server, so they say nothing about the visitor.
  const ownArrival = { ...arrival, address: null, header: () => undefined };
  const own = {
    ...{ texts, source: `postback:${processor.name}`, isClientSide: false, batchId: null },
    // A payment has the total of its order, but rarely its goods.
    takesBareSales: true,
  };
  const terms = requestTerms(own, ownArrival, facts);
  for (const found of events)
    yield found instanceof RefusedEvent
      ? refusedAs(found.refusal)
      : admitFound(processor, inOurTerms(found, processor, facts), terms);
}

const refusedAs = (refusal: Refusal): Admission<EventReceived> => ({ kind: "refused", id: null, refusal });

/**
 * Adds the shop's names of the metadata keys, so that a refusal names a missing field as the shop
 * would write it, and whether the metadata are believed.
 */
type WithKeys<Of> = Of & { readonly keys: Readonly<Record<string, string>>; readonly isBelieved: boolean };
const inOurTerms = <Of extends Money>(
  money: Of,
  { hasUnsignedMetadata = false }: PaymentProvider,
  { metadataKeys = {}, isSenderKnown = false }: PostbackFacts,
): WithKeys<Of> => ({ ...money, keys: metadataKeys, isBelieved: isSenderKnown || !hasUnsignedMetadata });
const keyOf = ({ keys }: WithKeys<Money>, name: string): string =>
  Object.hasOwn(keys, name) ? (keys[name] as string) : name;

const admitFound = (
  processor: PaymentProvider,
  found: WithKeys<PaymentMove>,
  terms: Terms,
): Admission<EventReceived> => {
  try {
    if (terms.receivedAt - found.at > (processor.longestDelayMs ?? Number.POSITIVE_INFINITY))
      refuse("notice_too_old", null, "of a payment or refund of more than seven days ago: send it as an event");
    const given = found.kind === "succeeded" ? purchaseOf(processor, found) : refundOf(processor, found);
    const admitted = admitEvent({ ...given, ts: found.at, cid: terms.clientId }, terms);
    return admitted.kind === "accepted" ? admitted : refusedAs(placedIn(found, admitted.refusal));
  } catch (problem) {
    if (problem instanceof RefusedEvent) return refusedAs(problem.refusal);
    throw problem;
  }
};

/** Translates the refused field to its place in the shop's metadata. */
const placedIn = (money: WithKeys<Money>, refusal: Refusal): Refusal => ({
  ...refusal,
  field: refusal.field?.replace(/^props\.(.*)$/, (_, name: string) => placeOf(money, name)) ?? null,
});
const placeOf = (money: WithKeys<Money>, name: string): string => `${money.metadataAt}.${keyOf(money, name)}`;

/** The event id of a sale comes from the payment id, so that a dispute can name the same event. */
const saleOf = ({ name }: PaymentProvider, { payment }: Money): string => `${name}:${payment}`;

/** The device id from the metadata, or else one made from the payment id. */
const deviceOf = (processor: PaymentProvider, money: WithKeys<Money>): unknown =>
  present(money, "did") ?? saleOf(processor, money);

const purchaseOf = (processor: PaymentProvider, money: WithKeys<Money>) => {
  const { amount, currency } = money;
  if (orderOf(money) === undefined)
    refuse(
      "missing_metadata",
      placeOf(money, "order_id"),
      "is missing: write the id of the order into the payment's metadata",
    );
  return {
    event_id: saleOf(processor, money),
    t: "purchase",
    did: deviceOf(processor, money),
    svc_click_id: present(money, "svc_click_id"),
    props: { ...goodsIn(money), revenue: amount, currency, payment_id: money.payment },
  };
};

const refundOf = (processor: PaymentProvider, money: WithKeys<Money & PaymentTakenBack>) => {
  const { amount, currency, reason, refund } = money;
  const { order_id, product_id } = goodsIn(money);
  const of = order_id === undefined ? { refunded_event_id: saleOf(processor, money) } : { order_id, product_id };
  return {
    event_id: `${processor.name}:${refund}`,
    t: "refund",
    did: deviceOf(processor, money),
    props: { ...of, refund_id: refund, amount, currency, reason, payment_id: money.payment },
  };
};

/** All metadata values are texts, including the quantity. */
const goodsIn = (money: WithKeys<Money>) => {
  const quantity = present(money, "quantity");
  if (quantity !== undefined && !/^[1-9]\d{0,6}$/.test(String(quantity)))
    refuse("bad_quantity", placeOf(money, "quantity"), "must be a whole number from 1 to 1000000");
  return {
    order_id: orderOf(money),
    product_id: present(money, "product_id"),
    product_line: present(money, "product_line"),
    quantity: quantity === undefined ? undefined : Number(quantity),
  };
};

const orderOf = (money: WithKeys<Money>): unknown => money.signedOrder ?? present(money, "order_id");

/** What may move credit, or money of another sale. */
const BELIEVED: ReadonlySet<string> = new Set(["order_id", "svc_click_id", "did"]);

const present = (money: WithKeys<Money>, name: string): unknown => {
  if (!money.isBelieved && BELIEVED.has(name)) return undefined;
  const key = keyOf(money, name);
  const value = Object.hasOwn(money.metadata, key) ? money.metadata[key] : undefined;
  return value === null || value === "" ? undefined : value;
};
