// Finds what one refund deducted: the ledger entries that it caused, or why it caused none.
import { derivedId } from "../../../domain/ids.ts";
import { linesIn, type OrderState } from "../../../processors/settle/order.ts";
import { waitingOf } from "../../../processors/settle/waiting-items.ts";
import type { ConversionOf, EntryOf } from "./money-of.ts";

/**
 * second_copy: another event is the same refund.
 * waits_for_sale: no line of its sale has arrived.
 * with_its_sale: it arrived before the sale, whose own entries include it.
 * no_partner: no partner was credited.
 * nothing_left: the whole order had been refunded already.
 */
export type TookNothing = "second_copy" | "waits_for_sale" | "with_its_sale" | "no_partner" | "nothing_left";
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

/** A claim changes a line at most twice, and there is room for its second copies. */
const CHANGES_OF_A_LINE = 2;

/**
 * Returns the ids that settle gave to the changes by this event. They are derived, so no history is
 * needed.
 */
const changesOf = (eventId: string, order: OrderState | null): ReadonlySet<string> => {
  const most = CHANGES_OF_A_LINE * ((order === null ? 0 : linesIn(order)) + 1);
  return new Set(Array.from({ length: most }, (_, n) => derivedId("settle", eventId, "conversions", n)));
};

const whyNothing = (eventId: string, isCopy: boolean, { order, conversions }: RefundMoney): TookNothing => {
  if (isCopy) return "second_copy";
  const waits =
    order === null || waitingOf(order, Date.now()).some(({ kind, id }) => kind === "refund" && id === eventId);
  if (waits) return "waits_for_sale";
  if (conversions.length === 0) return "no_partner";
  const refund = order.refunds.find(({ event_id }) => event_id === eventId);
  const firstSale = Math.min(...order.lines.map(({ received_at }) => received_at));
  return refund !== undefined && refund.received_at <= firstSale ? "with_its_sale" : "nothing_left";
};

/** `money` is that of the refund's whole order. */
export const takenBackBy = (eventId: string, isCopy: boolean, money: RefundMoney): TakenBack => {
  const changes = changesOf(eventId, money.order);
  const entries = money.entries.filter(({ change_id }) => changes.has(change_id)).map(({ entry_id }) => entry_id);
  return { nothing: entries.length > 0 ? null : whyNothing(eventId, isCopy, money), entries };
};
