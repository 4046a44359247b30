// What a mapped payload says, as an event of a sender: its value is the amount that its type has.
import type { MappedPayload } from "../../../domain/sources/map-payload.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { eventTypeOf } from "../event-types.ts";

/** For `admitEvent`. Without a time of its own it happened when it came. */
export const mappedEvent = (
  mapped: MappedPayload,
  { clientId, receivedAt, did }: { readonly clientId: number; readonly receivedAt: UnixMs; readonly did: string },
) => {
  const type = eventTypeOf(mapped.event_name);
  const amount = type === undefined ? "revenue" : type.amount;
  // Money on a type that has none stays a prop; admission warns of it.
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
