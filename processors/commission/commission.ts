// processors/commission/commission.ts - turns what a partner is credited for into a balanced ledger entry with a receipt, and takes it back with the sale.
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import { type Emit, emit, type Processor, type Recorded } from "../../stream/flow.ts";
import { divideHalfEven } from "../money.ts";
import type { Contract } from "../reference.ts";
import type { Contracts } from "./contracts.ts";
import { type CommissionMemory, type Earned, subKeyOf } from "./earned.ts";
import { entryFor } from "./entry.ts";

type Committed = { readonly entries: LedgerEntry };

/** Why a conversion earns nothing. */
type NothingReason = "no_contract" | "currency_mismatch" | "unsupported_contract" | "zero_value" | "rounds_to_zero";

const DAY_MS = 86_400_000;
const WHOLE_PPM = 1_000_000n;
/** These types hold amounts in the client's currency. */
const TYPES_WITH_AMOUNTS: readonly Contract["type"][] = ["flat", "tiered", "hybrid"];

/** 125000n is "12.5", a rate as contracts are written. */
const percentOf = (ratePpm: bigint): string => {
  const digits = ratePpm.toString().padStart(5, "0");
  return `${digits.slice(0, -4)}.${digits.slice(-4)}`.replace(/\.?0+$/, "");
};

const remember = (memory: CommissionMemory, event: Recorded<Conversion>, value: Earned): CommissionMemory => ({
  ...memory,
  [subKeyOf(event.data.conversion_id)]: value,
});

const committed = (entry: LedgerEntry, memory: CommissionMemory): Emit<Committed, CommissionMemory> =>
  emit<Committed, CommissionMemory>([{ output: "entries", data: entry }], memory);

/** A conversion always has an outcome (law M10): an entry that moves nothing and says why. */
const earnNothing = (
  sale: Recorded<Conversion>,
  memory: CommissionMemory,
  contract: Contract | undefined,
  reason: NothingReason,
  inputs: string = "{}",
): Emit<Committed, CommissionMemory> => {
  const terms = {
    reason,
    held: false,
    payable_from: null,
    contract_id: contract?.contract_id ?? null,
    contract_version: contract?.version ?? null,
    commission_type: contract?.type ?? null,
  };
  return committed(
    entryFor(sale, { ...terms, kind: "none", amount_minor: 0n, formula: `nothing: ${reason}`, inputs, reverses_entry_id: null }),
    remember(memory, sale, { ...terms, entry_id: null, earned_minor: 0n, reversed_minor: 0n }),
  );
};

/** A percent contract pays a share of the line in the sale's own currency, rounded half to even once, to the minor unit. */
const earn = (sale: Recorded<Conversion>, memory: CommissionMemory, facts: Contracts): Emit<Committed, CommissionMemory> => {
  const { contract, clientCurrency, holdDays } = facts;
  const { line_value_minor, currency, occurred_at, review } = sale.data;
  if (contract === undefined) return earnNothing(sale, memory, contract, "no_contract");
  if (TYPES_WITH_AMOUNTS.includes(contract.type) && currency !== clientCurrency)
    return earnNothing(sale, memory, contract, "currency_mismatch");
  if (contract.type !== "percent" || contract.rate_ppm === null) return earnNothing(sale, memory, contract, "unsupported_contract");
  if (line_value_minor === 0n) return earnNothing(sale, memory, contract, "zero_value");
  const amountMinor = divideHalfEven(line_value_minor * contract.rate_ppm, WHOLE_PPM);
  const inputs = JSON.stringify({
    line_value_minor: line_value_minor.toString(),
    currency,
    rate_ppm: contract.rate_ppm.toString(),
    hold_days: holdDays,
    amount_minor: amountMinor.toString(),
  });
  if (amountMinor === 0n) return earnNothing(sale, memory, contract, "rounds_to_zero", inputs);

  const terms = {
    held: review !== null,
    payable_from: occurred_at + holdDays * DAY_MS,
    contract_id: contract.contract_id,
    contract_version: contract.version,
    commission_type: contract.type,
  };
  const entry = entryFor(sale, {
    ...terms,
    kind: "earned",
    amount_minor: amountMinor,
    reason: review,
    formula: `amount = line value x ${percentOf(contract.rate_ppm)} %, rounded half to even to the minor unit`,
    inputs,
    reverses_entry_id: null,
  });
  return committed(
    entry,
    remember(memory, sale, { ...terms, entry_id: entry.entry_id, reason: null, earned_minor: amountMinor, reversed_minor: 0n }),
  );
};

/** What must have been taken back once `refunded` of the line is: in proportion, so that a whole refund takes back exactly what was earned. */
const targetOf = (earnedMinor: bigint, { refunded_minor, line_value_minor }: Conversion): bigint =>
  line_value_minor === 0n ? earnedMinor : divideHalfEven(earnedMinor * refunded_minor, line_value_minor);

/** Takes back with the terms of the sale, whatever the contract says by now, from the account that it was booked to. */
const reverse = (change: Recorded<Conversion>, memory: CommissionMemory): Emit<Committed, CommissionMemory> => {
  const sale = memory[subKeyOf(change.data.conversion_id)];
  if (sale === undefined || sale.entry_id === null) {
    const reason = sale?.reason ?? "not_credited";
    const entry = entryFor(change, {
      kind: "none",
      amount_minor: 0n,
      reason,
      held: false,
      payable_from: null,
      contract_id: sale?.contract_id ?? null,
      contract_version: sale?.contract_version ?? null,
      commission_type: sale?.commission_type ?? null,
      formula: `nothing to take back: ${reason}`,
      inputs: "{}",
      reverses_entry_id: null,
    });
    return committed(entry, memory);
  }
  const targetMinor = targetOf(sale.earned_minor, change.data);
  const partMinor = targetMinor - sale.reversed_minor;
  const entry = entryFor(change, {
    kind: "reversal",
    amount_minor: -partMinor,
    reason: change.data.reason,
    held: sale.held,
    payable_from: sale.payable_from,
    contract_id: sale.contract_id,
    contract_version: sale.contract_version,
    commission_type: sale.commission_type,
    formula: "amount = reversed before - earned x refunded / line value, the quotient rounded half to even to the minor unit",
    inputs: JSON.stringify({
      earned_minor: sale.earned_minor.toString(),
      refunded_minor: change.data.refunded_minor.toString(),
      line_value_minor: change.data.line_value_minor.toString(),
      reversed_before_minor: sale.reversed_minor.toString(),
      currency: change.data.currency,
      amount_minor: (-partMinor).toString(),
    }),
    reverses_entry_id: sale.entry_id,
  });
  return committed(entry, remember(memory, change, { ...sale, reversed_minor: targetMinor }));
};

/** Answers each conversion record with exactly one entry (settlement.md 4); amounts are minor units of the sale's currency. */
export const commission: Processor<Conversion, Committed, CommissionMemory, Contracts> = (change, memory, facts) =>
  change.data.kind === "reversed" ? reverse(change, memory) : earn(change, memory, facts);
