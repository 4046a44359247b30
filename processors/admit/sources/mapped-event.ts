// Turns a mapped payload into an event as a sender would write it. Its value goes to the amount
// prop of its type.
import type { MappedPayload } from "../../../domain/sources/map-payload.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { eventTypeOf } from "../event-types.ts";

/** Builds the input of `admitEvent`. A payload without a time gets the receipt time. */
export const mappedEvent = (
  mapped: MappedPayload,
  { clientId, receivedAt, did }: { readonly clientId: number; readonly receivedAt: UnixMs; readonly did: string },
) => {
  const type = eventTypeOf(mapped.event_name);
  const amount = type === undefined ? "revenue" : type.amount;
  // Money on a type without a value stays a prop, and admission adds a warning.
  const props = defined({
    [amount ?? "revenue"]: mapped.value,
    currency: mapped.currency,
    order_id: mapped.order_id,
    product_id: mapped.product_id,
    product_line: mapped.product_line,
    quantity: mapped.quantity,
    reason: mapped.reason,
  });
  return {
    t: mapped.event_name,
    ts: mapped.ts ?? receivedAt,
    cid: clientId,
    did: mapped.did ?? did,
    svc_click_id: mapped.click_id,
    url: mapped.url,
    props,
  };
};

const defined = (given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
