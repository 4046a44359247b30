// Decides which events are claims about an order, and computes the key that all claims of one order
// share.

import { isPlaceholder, sharedEventId } from "../../domain/ids.ts";
import type { ReferenceAt } from "../../domain/reference/reference.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";

const conversions: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);
const ofAnOrder: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "custom"]);

/**
 * Null if the event is not a claim. A custom event is a claim if any partner of the client earns on
 * its name at event time (docs/design/money.md, "Ids and keys").
 */
export const claimKindOf = (event: EventReceived, reference: ReferenceAt): Claim["kind"] | null => {
  if (conversions.has(event.t)) return "conversion";
  if (event.t === "refund") return "refund";
  const isCommissioned =
    event.t === "custom" && event.custom_name !== null && reference.isCommissioned(event.client_id, event.custom_name);
  return isCommissioned ? "conversion" : null;
};

/**
 * True if the order id is a placeholder such as "none". Such an event is never matched with others
 * and earns nothing.
 */
export const hasWeakOrder = ({ t, order_id }: EventReceived): boolean =>
  order_id !== null && ofAnOrder.has(t) && isPlaceholder(order_id);

/**
 * The first key that applies: order, lead, device of an install, event named by a refund, the
 * source's own key, hash of a pulled sale, or the event itself, by the id that its copies share
 * (docs/design/money.md, "Ids and keys"). All claims of one order share a partition, so they cannot
 * race. A placeholder is no key.
 */
export const orderKeyOf = (event: EventReceived): string => {
  if (event.order_id !== null && ofAnOrder.has(event.t) && !isPlaceholder(event.order_id)) return `o:${event.order_id}`;
  if (event.lead_key !== null && event.t === "lead_submit") return `l:${event.lead_key}`;
  if (event.t === "install" && !event.warnings.includes("weak_did")) return `i:${event.did}`;
  const refunded = refundedEventOf(event);
  if (refunded !== null) return `e:${refunded}`;
  if (event.dedup_key !== null) return `s:${event.source}:${event.dedup_key}`;
  return event.sale_hash === null ? `e:${sharedEventId(event)}` : `p:${event.sale_hash}`;
};

/** True for the key of an event that has no other: its copies meet by the sender's id alone. */
export const isOfEventAlone = (orderKey: string): boolean => orderKey.startsWith("e:");

/**
 * Every key under which settle may know the event, today's first. Before placeholders met nothing,
 * an event with one had the key of its order or device; a custom event that came before its order
 * counted has its own.
 */
export const keysOfEvent = (event: EventReceived): readonly string[] => {
  const keys = [orderKeyOf(event)];
  if (event.order_id !== null && ofAnOrder.has(event.t)) keys.push(`o:${event.order_id}`);
  if (event.t === "install") keys.push(`i:${event.did}`);
  if (event.t === "custom") keys.push(`e:${event.event_id}`);
  return [...new Set(keys)];
};
