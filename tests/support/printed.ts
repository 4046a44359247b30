// A ledger entry as an accountant reads it, for tests whose readers are people.
import { dayOf } from "../../domain/calendar.ts";
import { toDecimal } from "../../domain/money.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";

export const printed = (entry: LedgerEntry): string => {
  const decimal = (minor: bigint) => toDecimal(minor, entry.currency);
  const month = `${entry.year}-${String(entry.month).padStart(2, "0")}`;
  const lines = entry.lines.map(
    ({ account, amount_minor }) => `      ${account.padEnd(16)}${decimal(amount_minor).padStart(9)}`,
  );
  const payable = entry.payable_from === null ? "-" : dayOf(entry.payable_from);
  return `
    ${entry.kind}  ${month}  partner ${entry.partner_id}  ${decimal(entry.amount_minor)} ${entry.currency}
${lines.join("\n")}
    ${entry.formula}
    contract ${entry.contract_id} version ${entry.contract_version}, payable from ${payable}`;
};
