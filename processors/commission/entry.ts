// processors/commission/entry.ts - one balanced ledger entry that answers one conversion record.
import type { Conversion, EntryLine, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { monthOf } from "../calendar.ts";
import { derivedId, prefixed } from "../ids.ts";

/** What differs from entry to entry; all else is said by the conversion. */
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

/** What the partner gains is the client's expense; an entry that moves nothing has no lines. */
const linesOf = (amountMinor: bigint, isHeld: boolean): readonly EntryLine[] =>
  amountMinor === 0n
    ? []
    : [
        { account: "expense:client", amount_minor: amountMinor },
        { account: isHeld ? "held:partner" : "payable:partner", amount_minor: -amountMinor },
      ];

/** Month and year are those of the sale in Mexico City. */
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
    lines: linesOf(terms.amount_minor, terms.held),
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
