// Reads a refund, finds its copies, and writes its amount in the currency of its sale.

import { REFUND_REASONS } from "../../domain/refund-reasons.ts";
import type { Claim, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { type Line, type Refund, rowOf, rowText } from "./order.ts";
import { idIn, namesCurrency, propsIn } from "./props.ts";
import { currencyOf, inDigitsOf, namesLine } from "./spread.ts";

/**
 * What the refund asks for. A reason outside the closed list (docs/design/contracts.md, "Batch") is
 * `other`. An amount without a currency is in whatever the sale was in.
 */
export const refundOf = ({ id, receivedAt, data }: Recorded<Claim>): Refund => {
  const { event } = data.attributed;
  const given = propsIn(event);
  const currency = namesCurrency(event) ? event.currency : null;
  return {
    event_id: id,
    product_key: event.product_id,
    line_event_id: data.line_event_id,
    amount_minor: event.value_minor,
    currency,
    reason: REFUND_REASONS.has(given.reason) ? (given.reason as string) : "other",
    received_at: receivedAt,
    refund_id: idIn(given.refund_id),
    row: event.value_minor !== null && currency === null ? rowText(data.attributed) : null,
  };
};

/** The processor and the shop report one refund under one id; it may be of several products. */
export const firstOf = (refunds: readonly Refund[], { refund_id, product_key, line_event_id }: Refund) =>
  refund_id === null
    ? undefined
    : refunds.find(
        (one) => one.refund_id === refund_id && one.product_key === product_key && one.line_event_id === line_event_id,
      );

const inCurrency = (row: EventAttributed, amountMinor: bigint, currency: string): EventAttributed => ({
  ...row,
  event: { ...row.event, currency, value_minor: inDigitsOf(amountMinor, currency) },
});

/**
 * Refunds without a currency take that of their sale, and so do their rows: one version up, or at
 * once for the one that has just come.
 */
export const inSalesCurrency = (
  refunds: readonly Refund[],
  lines: readonly Line[],
  justCame: string | null,
): {
  readonly refunds: readonly Refund[];
  readonly rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
} => {
  const rows: { readonly row: EventAttributed; readonly at: UnixMs }[] = [];
  if (refunds.length === 0) return { refunds, rows };
  const written = refunds.map((refund) => {
    if (refund.row === null || refund.amount_minor === null) return refund;
    const currency = currencyOf(
      refund,
      lines.filter((line) => namesLine(refund, line)),
    );
    const before = rowOf({ row: refund.row });
    if (currency === null || currency === before.event.currency) return refund;
    const after = inCurrency(before, refund.amount_minor, currency);
    const row = refund.event_id === justCame ? after : { ...after, version: before.version + 1 };
    rows.push({ row, at: Math.min(row.event.ts, refund.received_at) });
    return { ...refund, row: rowText(row) };
  });
  return { refunds: written, rows };
};
