// Builds the balanced ledger entries that answer one conversion record.

import { type Month, monthOf } from "../../domain/calendar.ts";
import { derivedId, prefixed, uuidOf } from "../../domain/ids.ts";
import type { Conversion, EntryLine, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { monthName } from "./memory.ts";
import type { Adjustment } from "./month.ts";

/** The fields that differ from entry to entry. The conversion supplies all others. */
export type EntryTerms = Pick<
  LedgerEntry,
  | "kind"
  | "amount_minor"
  | "reason"
  | "contract_id"
  | "contract_version"
  | "commission_type"
  | "formula"
  | "inputs"
  | "payable_from"
  | "held"
  | "reverses_entry_id"
>;

/** The partner's gain is the client's expense. An account without a movement gets no line. */
const linesOf = (amountMinor: bigint, heldMinor: bigint): readonly EntryLine[] =>
  [
    { account: "expense:client", amount_minor: amountMinor },
    { account: "held:partner", amount_minor: -heldMinor },
    { account: "payable:partner", amount_minor: heldMinor - amountMinor },
  ].filter(({ amount_minor }) => amount_minor !== 0n);

/** Month and year of the entry are those of the sale in Mexico City. */
export const entryFor = ({ id, data }: Recorded<Conversion>, terms: EntryTerms): LedgerEntry => {
  const { year, month } = monthOf(data.occurred_at);
  return {
    entry_id: prefixed("led", derivedId("commission", id, "entries", 0)),
    kind: terms.kind,
    client_id: data.client_id,
    partner_id: data.partner_id,
    campaign_id: data.campaign_id,
    conversion_id: data.conversion_id,
    change_id: data.change_id,
    conversion_version: data.version,
    event_type: data.event_type,
    segment: data.segment,
    currency: data.currency,
    amount_minor: terms.amount_minor,
    lines: linesOf(terms.amount_minor, terms.held ? terms.amount_minor : 0n),
    reason: terms.reason,
    contract_id: terms.contract_id,
    contract_version: terms.contract_version,
    commission_type: terms.commission_type,
    formula: terms.formula,
    inputs: terms.inputs,
    occurred_at: data.occurred_at,
    payable_from: terms.payable_from,
    year,
    month,
    held: terms.held,
    reverses_entry_id: terms.reverses_entry_id,
  };
};

/**
 * The further entries of a change that moved its month to another tier. They belong to the month
 * and not to the sale, so a fully refunded sale still adds up to zero. Instead of a conversion they
 * name `tier_` with an id of contract and month, and their version counts the adjustments of that
 * month.
 */
export const adjustmentsFor = (
  change: Recorded<Conversion>,
  adjustments: readonly Adjustment[],
  sale: Pick<LedgerEntry, "segment" | "payable_from" | "reverses_entry_id">,
): readonly LedgerEntry[] =>
  adjustments.map(({ amountMinor, heldMinor, number, inputs, of, ...adjustment }, n) => {
    const { client_id, partner_id } = change.data;
    const occurred_at = of?.at ?? change.data.occurred_at;
    const entry = entryFor(
      { ...change, data: { ...change.data, occurred_at } },
      {
        kind: "tier_adjustment",
        amount_minor: amountMinor,
        commission_type: "tiered",
        inputs: JSON.stringify(inputs),
        payable_from: of === undefined ? sale.payable_from : of.payable_from,
        held: heldMinor !== 0n && amountMinor !== 0n,
        reverses_entry_id: sale.reverses_entry_id,
        ...adjustment,
      },
    );
    return {
      ...entry,
      entry_id: prefixed("led", derivedId("commission", change.id, "entries", n + 1)),
      conversion_id: prefixed(
        "tier",
        uuidOf("tier", client_id, partner_id, adjustment.contract_id, monthName(occurred_at)),
      ),
      conversion_version: number,
      campaign_id: null,
      segment: sale.segment,
      lines: linesOf(amountMinor, heldMinor),
    };
  });

/**
 * A closed month is never edited. An entry for it is booked as an adjustment in the first open
 * month.
 */
export const bookedIn = (entry: LedgerEntry, open: Month): LedgerEntry =>
  entry.lines.length === 0
    ? entry
    : {
        ...entry,
        ...open,
        kind: entry.kind === "tier_adjustment" ? entry.kind : "adjustment",
        formula: `${entry.formula}; the month of the sale is closed, so it is booked in the first open one`,
      };
