// What must hold after every change of a history, not only at its end: no account is below zero,
// and no contract has paid more than its cap.
import type { LedgerEntry } from "../../../schemas/generated.ts";
import { periodOf } from "./accounts.ts";
import type { ContractSaved } from "./history.ts";

/**
 * The sums that did not hold. Entries come in the order of their booking, and may come more than
 * once.
 */
export const brokenSums = (
  entries: readonly LedgerEntry[],
  contractOf: (contractId: number, version: number) => ContractSaved | undefined,
): readonly string[] => {
  const broken: string[] = [];
  const sums = new Map<string, bigint>();
  const seen = new Set<string>();
  /** By account or cap: the least and the most that its sum may be. */
  let touched = new Map<string, { readonly least?: bigint; readonly most?: bigint }>();
  const add = (name: string, amount: bigint, bound: { readonly least?: bigint; readonly most?: bigint }): void => {
    sums.set(name, (sums.get(name) ?? 0n) + amount);
    touched.set(name, bound);
  };
  const fresh = entries.filter(({ entry_id }) => !seen.has(entry_id) && seen.add(entry_id));
  for (const [n, entry] of fresh.entries()) {
    const { client_id, partner_id, contract_id, contract_version, occurred_at } = entry;
    for (const { account, amount_minor } of entry.lines)
      if (account !== "expense:client")
        add(`${client_id} ${partner_id} ${account} ${entry.currency}`, -amount_minor, { least: 0n });
    const cap = contract_id === null ? undefined : contractOf(contract_id, contract_version ?? 1)?.cap;
    if (cap !== undefined)
      add(`contract ${contract_id}.${contract_version} ${periodOf[cap.period](occurred_at)}`, entry.amount_minor, {
        most: cap.amount,
      });
    // The entries of one change are booked together.
    if (fresh[n + 1]?.change_id === entry.change_id) continue;
    for (const [name, { least, most }] of touched) {
      const sum = sums.get(name)!;
      if ((least !== undefined && sum < least) || (most !== undefined && sum > most))
        broken.push(`${name} is at ${sum} after ${entry.change_id}`);
    }
    touched = new Map();
  }
  return broken;
};
