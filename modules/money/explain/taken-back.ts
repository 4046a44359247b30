// Finds what one refund deducted: the ledger entries that it caused, or why it caused none.
import { derivedId } from "../../../domain/ids.ts";
import type { OrderState } from "../../../processors/settle/order.ts";
import { isHeld } from "../../../processors/settle/refund-claim.ts";
import { waitingOf } from "../../../processors/settle/waiting-items.ts";
import { type ConversionOf, type EntryOf, mostChangesIn } from "./money-of.ts";

/**
 * second_copy: another event is the same refund.
 * held_twice: another source reported a refund alike, and no person has decided about it yet.
 * waits_for_sale: no line of its sale has arrived.
 * other_currency: its sale is there, and no line of it is in its currency.
 * with_its_sale: it arrived before the sale, whose own entries include it.
 * no_partner: no partner was credited.
 * nothing_left: the whole order had been refunded already.
 */
export type TookNothing =
  | "second_copy"
  | "held_twice"
  | "waits_for_sale"
  | "other_currency"
  | "with_its_sale"
  | "no_partner"
  | "nothing_left";
export interface TakenBack {
  /** Null when there are entries. */
  readonly nothing: TookNothing | null;
  readonly entries: readonly string[];
}
export interface RefundMoney {
  readonly conversions: readonly ConversionOf[];
  readonly entries: readonly (EntryOf & { readonly change_id: string })[];
  readonly order: OrderState | null;
}

/**
 * Returns the ids that settle gave to the changes by this event. They are derived, so no history is
 * needed.
 */
const changesOf = (eventId: string, order: OrderState | null): ReadonlySet<string> => {
  return new Set(
    Array.from({ length: mostChangesIn(order) }, (_, n) => derivedId("settle", eventId, "conversions", n)),
  );
};

const whyNothing = (eventId: string, isCopy: boolean, { order, conversions }: RefundMoney): TookNothing => {
  if (isCopy) return "second_copy";
  const refund = order?.refunds.find(({ event_id }) => event_id === eventId);
  if (refund !== undefined && isHeld(refund)) return "held_twice";
  if (order === null) return "waits_for_sale";
  const waiting = waitingOf(order, Date.now()).find(({ kind, id }) => kind === "refund" && id === eventId);
  if (waiting !== undefined) return waiting.reason === "other_currency" ? "other_currency" : "waits_for_sale";
  if (conversions.length === 0) return "no_partner";
  const firstSale = Math.min(...order.lines.map(({ received_at }) => received_at));
  return refund !== undefined && refund.received_at <= firstSale ? "with_its_sale" : "nothing_left";
};

/** `money` is that of the refund's whole order. */
export const takenBackBy = (eventId: string, isCopy: boolean, money: RefundMoney): TakenBack => {
  const changes = changesOf(eventId, money.order);
  const entries = money.entries.filter(({ change_id }) => changes.has(change_id)).map(({ entry_id }) => entry_id);
  return { nothing: entries.length > 0 ? null : whyNothing(eventId, isCopy, money), entries };
};
