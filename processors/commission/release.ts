// Makes a held commission payable, with one balanced entry between the partner's accounts that
// earns nothing.
import type { Conversion, EntryLine, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { entryFor } from "./entry.ts";
import type { EarnedSale } from "./memory-format.ts";

const moved = (amountMinor: bigint): readonly EntryLine[] =>
  amountMinor === 0n
    ? []
    : [
        { account: "held:partner", amount_minor: amountMinor },
        { account: "payable:partner", amount_minor: -amountMinor },
      ];

/**
 * Releases the held rest of an earning: its amount less reversals. The amount is zero if the
 * earning is not held. Amounts are minor units of the sale's currency.
 */
export const releaseEntry = (change: Recorded<Conversion>, sale: EarnedSale | undefined): LedgerEntry => {
  const isHeld = sale?.held === true && sale.entry_id !== null;
  const leftMinor = isHeld ? sale.earned_minor - sale.reversed_minor : 0n;
  const entry = entryFor(change, {
    kind: isHeld ? "adjustment" : "none",
    amount_minor: 0n,
    reason: isHeld ? change.data.reason : (sale?.reason ?? "not_held"),
    held: false,
    payable_from: sale?.payable_from ?? null,
    contract_id: sale?.contract_id ?? null,
    contract_version: sale?.contract_version ?? null,
    commission_type: sale?.commission_type ?? null,
    formula: isHeld
      ? "released = earned - reversed before; from held to payable, the partner gains nothing by it"
      : "nothing to release",
    inputs: isHeld
      ? JSON.stringify({
          earned_minor: sale.earned_minor.toString(),
          reversed_before_minor: sale.reversed_minor.toString(),
          currency: change.data.currency,
          released_minor: leftMinor.toString(),
        })
      : "{}",
    reverses_entry_id: null,
  });
  return { ...entry, lines: moved(leftMinor) };
};
