// The edges of POST /postback/generic and /postback/external/:source: a source's mapping turns each
// payload into one event.
import { isUtf8 } from "node:buffer";
import { meetingId, uuidOf } from "../../../domain/ids.ts";
import { type MappedPayload, type MappingFault, mapPayload } from "../../../domain/sources/map-payload.ts";
import { type LogicalField, type ReadMapping, type SourceKind, sourceName } from "../../../domain/sources/source.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody, type Refusal } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { isMoneyType } from "../event-types.ts";
import { RefusedEvent } from "../refuse.ts";
import { type RequestFacts, requestTerms } from "../request-terms.ts";
import { checkShape, type Texts, textsOf } from "../shape.ts";
import { mappedEvent } from "./mapped-event.ts";

type Payload = Readonly<Record<string, unknown>>;
export interface GenericBody {
  /** The source named in the URL. */
  readonly sourceId: number;
  readonly clientId: number;
  readonly events: readonly [Payload];
  readonly texts: Texts;
}
export interface SourceFacts extends RequestFacts {
  readonly source: {
    readonly slug: string;
    readonly kind: SourceKind;
    readonly read: ReadMapping;
    readonly movesMoney: boolean;
  };
}

const HEAD = /^src_([1-9]\d{0,9}) ([1-9]\d{0,9})\n/;
/** The longest header of an envelope. A longer first line is not one. */
const MAX_HEAD_BYTES = 32;

/** Builds an envelope: the source, its client, and the payload bytes unchanged. */
export const envelopeOf = (of: { readonly sourceId: number; readonly clientId: number }, payload: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`src_${of.sourceId} ${of.clientId}\n`), payload]);

/**
 * Parses an envelope. Throws BadBody if the payload is not an object or contains characters that no
 * store accepts.
 */
export const acceptsGeneric = (body: unknown): GenericBody => {
  const bytes =
    body instanceof Uint8Array ? Buffer.from(body.buffer, body.byteOffset, body.byteLength) : Buffer.alloc(0);
  const head = HEAD.exec(bytes.subarray(0, MAX_HEAD_BYTES).toString("latin1"));
  if (head === null) throw new BadBody("bad_envelope", "", "the bytes name no source");
  const payload = bytes.subarray(head[0].length);
  if (!isUtf8(payload)) throw new BadBody("bad_json", "", "the body is not UTF-8");
  const text = payload.toString("utf8");
  const texts = textsOf(text);
  const given = parsed(text);
  try {
    checkShape(given, texts);
  } catch (problem) {
    if (!(problem instanceof RefusedEvent)) throw problem;
    const { code, field, message } = problem.refusal;
    throw new BadBody(code, pointerOf(field), `${field ?? "the payload"} ${message}`);
  }
  return { sourceId: Number(head[1]), clientId: Number(head[2]), events: [given], texts };
};

const parsed = (text: string): Payload => {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw new BadBody("bad_json", "", "the body is not JSON");
  }
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new BadBody("bad_payload", "", "the payload is no JSON object: send one event, as an object");
  return given as Payload;
};
const pointerOf = (field: string | null): string => (field === null ? "" : `/${field.replaceAll(".", "/")}`);

/** Admits a payload. Pure: the same payload, arrival and mapping give the same event. */
export function* admitGeneric(
  { events: [payload], texts }: GenericBody,
  arrival: Arrival,
  facts: SourceFacts,
): Generator<Admission<EventReceived>, void> {
  const mapped = mapPayload(payload, facts.source.read);
  if ("code" in mapped) yield { kind: "refused", id: null, refusal: refusalOf(mapped) };
  else if (facts.source.movesMoney) yield admitMapped(mapped, texts, arrival, facts);
  else if (isMoneyType(mapped.event_name)) yield { kind: "refused", id: null, refusal: unsignedMoney(mapped) };
  else yield admitMapped(withoutPartner(mapped), texts, arrival, facts);
}

/** A click names a partner, too. */
const withoutPartner = ({ partner_param: _, click_id: __, ...mapped }: MappedPayload): MappedPayload => mapped;

/**
 * The types that can earn a commission (processors/score/rule.ts), and the one that takes it back.
 */
const unsignedMoney = ({ event_name }: MappedPayload): Refusal => ({
  code: "unsigned_money",
  field: "event_name",
  message: `${event_name} moves money, and this payload is unsigned: use its key, set its secret, or unsigned_money`,
  retryable: false,
});

const refusalOf = ({ code, field, path, found, hint }: MappingFault): Refusal => ({
  code,
  field,
  message: `${placed(field, path)} found ${found}: ${hint}`,
  retryable: false,
});
const placed = (field: LogicalField, path: string | null): string =>
  path === null ? `${field}, which has no path,` : `${field} at "${path}"`;

const admitMapped = (
  mapped: MappedPayload,
  texts: Texts,
  arrival: Arrival,
  facts: SourceFacts,
): Admission<EventReceived> => {
  const { clientId, source } = facts;
  const name = sourceName(source.slug);
  const key = mapped.dedup_key!;
  const did = mapped.did ?? uuidOf(name, key);
  const given = mappedEvent(mapped, { clientId, receivedAt: arrival.receivedAt, did });
  // Address and browser belong to a server, so they say nothing about the visitor.
  const own = { texts, source: name, isClientSide: false, batchId: null, takesBareSales: true };
  const admitted = admitEvent(given, requestTerms(own, arrival, facts));
  if (admitted.kind === "refused") return { ...admitted, refusal: inTermsOfMapping(admitted.refusal, source.read) };
  const id = eventIdOf(clientId, believed(name, source.movesMoney), key);
  const by_partner = source.kind === "postback_network" ? true : null;
  const named = { event_id: id, dedup_key: meetingId(key), partner_ref: mapped.partner_param ?? null, by_partner };
  return { ...admitted, id, data: { ...admitted.data, ...named } };
};

/**
 * The name under which keys of a source are known. What anyone may send has keys of its own: a
 * stranger who knows the key of a sale must not take its place.
 */
export const believed = (source: string, movesMoney: boolean): string => (movesMoney ? source : `${source} unsigned`);

/** The same key of a source always gives the same event id. */
export const eventIdOf = (clientId: number, source: string, key: string): string => uuidOf(clientId, source, key);

/** The names of our event fields in a mapping. */
const LOGICAL: Readonly<Record<string, LogicalField>> = {
  t: "event_name",
  ts: "ts",
  did: "did",
  url: "url",
  "props.revenue": "value",
  "props.price": "value",
  "props.cart_value": "value",
  "props.lead_value": "value",
  "props.amount": "value",
  "props.currency": "currency",
  "props.order_id": "order_id",
  "props.product_id": "product_id",
  "props.quantity": "quantity",
  "props.reason": "reason",
  "props.url": "url",
};

/**
 * Rewrites a refusal for the author of the mapping: it names the mapping's field and its path in
 * the payload.
 */
const inTermsOfMapping = (refusal: Refusal, { fields }: ReadMapping): Refusal => {
  const field = refusal.field === null ? undefined : LOGICAL[refusal.field];
  if (field === undefined) return refusal;
  const path = fields.find((one) => one.field === field)?.path?.text ?? null;
  return { ...refusal, field, message: `${placed(field, path)} ${refusal.message}` };
};
