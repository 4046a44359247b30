// Which events say something about an order, and the key under which all of one order meet.

import { isWeakOrderId } from "../../domain/order-id.ts";
import type { ReferenceAt } from "../../domain/reference/reference.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";

const conversions: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);
const ofAnOrder: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "custom"]);

/**
 * Null when the event is no claim. A custom event is one when any partner of the client earns on
 * its name at event time (docs/design/money.md, "Ids and keys").
 */
export const claimKindOf = (event: EventReceived, reference: ReferenceAt): Claim["kind"] | null => {
  if (conversions.has(event.t)) return "conversion";
  if (event.t === "refund") return "refund";
  const isCommissioned =
    event.t === "custom" && event.custom_name !== null && reference.isCommissioned(event.client_id, event.custom_name);
  return isCommissioned ? "conversion" : null;
};

/** Its order is a word that stands for none: it meets no other event, and earns nothing. */
export const hasWeakOrder = ({ t, order_id }: EventReceived): boolean =>
  order_id !== null && ofAnOrder.has(t) && isWeakOrderId(order_id);

/**
 * The first that applies: the order (all of one order meet on one partition, so none of it can
 * race), the lead, the device of an install, the event that a refund names, the source's own key,
 * the hash of a pulled sale, the event itself (docs/design/money.md, "Ids and keys").
 */
export const orderKeyOf = (event: EventReceived): string => {
  if (event.order_id !== null && ofAnOrder.has(event.t) && !isWeakOrderId(event.order_id)) return `o:${event.order_id}`;
  if (event.lead_key !== null && event.t === "lead_submit") return `l:${event.lead_key}`;
  if (event.t === "install") return `i:${event.did}`;
  const refunded = refundedEventOf(event);
  if (refunded !== null) return `e:${refunded}`;
  if (event.dedup_key !== null) return `s:${event.source}:${event.dedup_key}`;
  return event.sale_hash === null ? `e:${event.event_id}` : `p:${event.sale_hash}`;
};
