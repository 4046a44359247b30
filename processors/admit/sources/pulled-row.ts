// The edge of pulls: a row of an external source becomes an event. The event id is computed from
// the row, so a row that is pulled again is the same event.
import { hash } from "node:crypto";
import { meetingId, sentEventId, spelling } from "../../../domain/ids.ts";
import { type MappedPayload, type MappingFault, mapPayload } from "../../../domain/sources/map-payload.ts";
import type { ReadMapping } from "../../../domain/sources/source.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { Refusal, UnixMs } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { type RequestFacts, requestTerms } from "../request-terms.ts";
import { mappedEvent } from "./mapped-event.ts";

/** The source of the rows and how to read them. */
export interface PulledFrom {
  readonly sourceId: number;
  readonly mapping: ReadMapping;
}
export type PulledRow =
  | {
      readonly kind: "accepted";
      readonly event: EventReceived;
      readonly saleHash: string;
      /** The hash of a row whose order id is a placeholder, as it was made before. Else null. */
      readonly hashBefore: string | null;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

const refused = (code: string, field: string, message: string): PulledRow => ({
  kind: "refused",
  refusal: { code, field, message, retryable: false },
});
const missing = (field: string, message: string): PulledRow => refused("missing_field", field, message);
const ofFault = ({ code, field, path, found, hint }: MappingFault): PulledRow =>
  refused(code, field, `${path ?? "no path"}: found ${found}; ${hint}`);

/**
 * Admits a row. Pure: the same row always gives the same event. A row needs a time, and an order, a
 * key or a device that identifies it. Refusals quote no value of the row.
 */
export const admitPulled = (from: PulledFrom, receivedAt: UnixMs, facts: RequestFacts) => {
  const { clientId } = facts;
  const arrival = { receivedAt, sender: String(clientId), address: null, header: () => undefined };
  const texts = { mayBeBroken: true, mayHoldEmail: true };
  const terms = requestTerms({ texts, source: "pull", isClientSide: false, batchId: null }, arrival, facts);
  return (row: unknown): PulledRow => {
    const mapped = mapPayload(row, from.mapping, { needsKey: false });
    if ("hint" in mapped) return ofFault(mapped);
    const ids = [mapped.order_id, mapped.dedup_key, mapped.did].filter((id) => id !== undefined);
    const known = ids.find((id) => meetingId(id) !== null) ?? ids[0];
    if (known === undefined) return missing("order_id", "a row needs an order_id, a dedup_key or a did");
    if (mapped.ts === undefined) return missing("ts", "a row needs the time at which it happened");
    const did = `pull:${from.sourceId}:${spelling(known)}`;
    const admitted = admitEvent(mappedEvent(mapped, { clientId, receivedAt, did }), terms);
    if (admitted.kind === "refused") return { kind: "refused", refusal: admitted.refusal };
    return { kind: "accepted", ...identified(admitted.data, mapped, { ...from, known, before: ids[0]! }) };
  };
};

/**
 * Computes the id and key of a row. The amount is normalised first, so "12.5" and 12.50 are the
 * same. The id is made from the row's own spelling, so that a row pulled again is always the same
 * event; two spellings meet by the key.
 */
const identified = (
  event: EventReceived,
  mapped: MappedPayload,
  { sourceId, known, before }: PulledFrom & { readonly known: string; readonly before: string },
) => {
  const { client_id, custom_name, t, value_minor, currency, ts, product_id } = event;
  const rest = [custom_name ?? t, value_minor?.toString() ?? null, currency, ts];
  const hashOf = (by: string, product: string | null): string => {
    const said = [sourceId, client_id, by, ...rest];
    // Two lines of one order may have the same price, so the product is part of the hash.
    return hash("sha256", JSON.stringify(product === null ? said : [...said, product]), "hex");
  };
  // A product that is personal data stands in the event alone as it counts.
  const isSent = product_id === null || spelling(mapped.product_id ?? "") === product_id;
  const product = isSent ? (mapped.product_id ?? null) : product_id;
  const saleHash = hashOf(known, product);
  const sale_hash = hashOf(spelling(known), product_id);
  const hashBefore = known === before ? null : hashOf(before, product);
  const sender_event_id = `pull-${saleHash}`;
  const event_id = sentEventId(client_id, sender_event_id);
  const partner_ref = mapped.partner_param ?? null;
  return { saleHash, hashBefore, event: { ...event, event_id, sender_event_id, sale_hash, partner_ref } };
};

/** The value that pulls write to the feed: an admitted event and the time of its admission. */
export interface PulledEvent {
  readonly receivedAt: UnixMs;
  readonly event: EventReceived;
}
export const pulledRecord = ({ receivedAt, event }: PulledEvent) => ({
  at: Math.min(event.ts, receivedAt),
  receivedAt,
  data: event,
});
