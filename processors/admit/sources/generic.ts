// The edges of POST /postback/generic and /postback/external/:source: one payload of a source
// becomes one event by the mapping of the source.
import { isUtf8 } from "node:buffer";
import { uuidOf } from "../../../domain/ids.ts";
import { type MappedPayload, type MappingFault, mapPayload } from "../../../domain/sources/map-payload.ts";
import { type LogicalField, type ReadMapping, sourceName } from "../../../domain/sources/source.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody, type Refusal } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { RefusedEvent } from "../refuse.ts";
import { type RequestFacts, requestTerms } from "../request-terms.ts";
import { checkShape, type Texts, textsOf } from "../shape.ts";
import { mappedEvent } from "./mapped-event.ts";

type Payload = Readonly<Record<string, unknown>>;
export interface GenericBody {
  /** The source that the address named. */
  readonly sourceId: number;
  readonly clientId: number;
  readonly events: readonly [Payload];
  readonly texts: Texts;
}
export interface SourceFacts extends RequestFacts {
  readonly source: { readonly slug: string; readonly read: ReadMapping };
}

const HEAD = /^src_([1-9]\d{0,9}) ([1-9]\d{0,9})\n/;
/** Of an envelope: what is longer is none. */
const MAX_HEAD_BYTES = 32;

/** What an edge admits: whose payload it is, and the bytes as they came. */
export const envelopeOf = (of: { readonly sourceId: number; readonly clientId: number }, payload: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`src_${of.sourceId} ${of.clientId}\n`), payload]);

/** An envelope. Throws BadBody for a payload that is no object, or holds what no store takes. */
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

/** Pure: the same payload, arrival and mapping give the same event. */
export function* admitGeneric(
  { events: [payload], texts }: GenericBody,
  arrival: Arrival,
  facts: SourceFacts,
): Generator<Admission<EventReceived>, void> {
  const mapped = mapPayload(payload, facts.source.read);
  yield "code" in mapped
    ? { kind: "refused", id: null, refusal: refusalOf(mapped) }
    : admitMapped(mapped, texts, arrival, facts);
}

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
  // The address and the browser are those of a server.
  const own = { texts, source: name, isClientSide: false, batchId: null, takesBareSales: true };
  const admitted = admitEvent(given, requestTerms(own, arrival, facts));
  if (admitted.kind === "refused") return { ...admitted, refusal: inTermsOfMapping(admitted.refusal, source.read) };
  const id = eventIdOf(clientId, name, key);
  const named = { event_id: id, dedup_key: key, partner_ref: mapped.partner_param ?? null };
  return { ...admitted, id, data: { ...admitted.data, ...named } };
};

/** The same key of a source is the same event, for good. */
export const eventIdOf = (clientId: number, source: string, key: string): string => uuidOf(clientId, source, key);

/** What our fields of an event are called in a mapping. */
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

/** Names the logical field and its path, where the sender of events would read our own names. */
const inTermsOfMapping = (refusal: Refusal, { fields }: ReadMapping): Refusal => {
  const field = refusal.field === null ? undefined : LOGICAL[refusal.field];
  if (field === undefined) return refusal;
  const path = fields.find((one) => one.field === field)?.path?.text ?? null;
  return { ...refusal, field, message: `${placed(field, path)} ${refusal.message}` };
};
