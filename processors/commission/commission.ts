// Turns credited sales into balanced ledger entries with a receipt, and reverses them when the sale
// is taken back.

import type { Month } from "../../domain/calendar.ts";
import { divideHalfEven } from "../../domain/money.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import { type Emit, emit, type Processor, type Recorded } from "../../stream/flow.ts";
import type { Contracts } from "./contracts.ts";
import { withoutSale } from "./customer/sales.ts";
import { decide } from "./decide.ts";
import { adjustmentsFor, bookedIn, entryFor } from "./entry.ts";
import { type CommissionMemory, conversionIn, conversionKey, countIn, isGone, periodKey, withCount } from "./memory.ts";
import type { EarnedSale } from "./memory-format.ts";
import { leftOrder, moveAmounts } from "./orders/order-move.ts";
import { heirOf } from "./orders/order-parts.ts";
import { soldLine } from "./orders/order-share.ts";
import { releaseEntry } from "./release.ts";
import { NO_VOLUME } from "./tier-volume.ts";
import { releaseVolume, returnVolume } from "./volume.ts";
import type { NoWorth, SaleWorth } from "./worth.ts";

type CommissionOutputs = { readonly entries: LedgerEntry };
type Sale = Recorded<Conversion>;

const DAY_MS = 86_400_000;

const remember = (memory: CommissionMemory, event: Sale, value: EarnedSale): CommissionMemory => ({
  ...memory,
  [conversionKey(event.data.conversion_id)]: value,
});
const committed = (
  entries: readonly LedgerEntry[],
  memory: CommissionMemory,
): Emit<CommissionOutputs, CommissionMemory> =>
  emit<CommissionOutputs, CommissionMemory>(
    entries.map((data) => ({ output: "entries", data })),
    memory,
  );

const reasonForNothing = ({ recalculates }: Conversion, answer: SaleWorth | NoWorth): string => {
  if (!recalculates) return "recalc_not_asked";
  return answer.kind === "nothing" ? answer.reason : "rounds_to_zero";
};

/** If the decision used no numbers, the receipt shows no inputs. */
const receiptInputs = (
  { kind, inputs }: SaleWorth | NoWorth,
  holdDays: number,
  amountMinor: bigint,
  { occurred_at, hold_from, dated_by, dated_because }: Conversion,
): string => {
  if (kind !== "worth" && Object.keys(inputs).length === 0) return "{}";
  const shown: Record<string, unknown> = { ...inputs };
  // Whose time dated the money. A sale of before times were judged says nothing.
  if (dated_by !== null) shown.dated_by = dated_by;
  if (dated_because !== null) shown.dated_because = dated_because;
  if (hold_from !== null && hold_from !== occurred_at) shown.hold_from = new Date(hold_from).toISOString();
  shown.hold_days = holdDays;
  shown.amount_minor = amountMinor.toString();
  return JSON.stringify(shown);
};

/**
 * Answers a credited conversion. There is always an entry (law M10): one that earns, or one that
 * moves nothing and states the reason.
 */
const earn = (
  sale: Sale,
  before: CommissionMemory,
  { contract: known, holdDays }: Contracts,
): Emit<CommissionOutputs, CommissionMemory> => {
  const contract = sale.data.recalculates ? known : undefined;
  const { answer, adjustments, units, table, entries, isListed, memory } = decide(sale, contract, before);
  const amountMinor = answer.kind === "worth" ? answer.amountMinor : 0n;
  const isEarning = amountMinor !== 0n;
  const none = reasonForNothing(sale.data, answer);
  const payableFrom = (sale.data.hold_from ?? sale.data.occurred_at) + holdDays * DAY_MS;
  const terms = {
    held: isEarning && sale.data.review !== null,
    payable_from: isEarning ? payableFrom : null,
    contract_id: contract?.contract_id ?? null,
    contract_version: contract?.version ?? null,
    commission_type: contract?.type ?? null,
  };
  const entry = entryFor(sale, {
    ...terms,
    kind: isEarning ? "earned" : "none",
    amount_minor: amountMinor,
    reason: isEarning ? sale.data.review : none,
    formula: answer.kind === "worth" && isEarning ? answer.formula : `nothing: ${none}`,
    inputs: receiptInputs(answer, holdDays, amountMinor, sale.data),
    reverses_entry_id: null,
  });
  const kept = remember(memory, sale, {
    is: "conversion",
    ...terms,
    // The volume is under review together with its sale, even if the sale itself earned nothing.
    held: sale.data.review !== null,
    payable_from: contract === undefined ? null : payableFrom,
    entry_id: isEarning ? entry.entry_id : null,
    reason: isEarning ? null : none,
    earned_minor: amountMinor,
    reversed_minor: 0n,
    contract_segment: contract?.segment ?? null,
    counts_as: contract?.event_type ?? null,
    cap_period: contract?.cap?.period ?? null,
    units,
    units_back: NO_VOLUME,
    table,
    won_held: 0n,
    line: isListed ? soldLine(sale.data) : null,
  });
  const beside = { segment: contract?.segment ?? null, payable_from: payableFrom, reverses_entry_id: null };
  return committed([entry, ...entries, ...adjustmentsFor(sale, adjustments, beside)], kept);
};

/**
 * The commission that must be reversed in total once `refunded_minor` is refunded. Proportional, so
 * a full refund reverses exactly what was earned.
 */
const targetOf = (earnedMinor: bigint, { refunded_minor, line_value_minor }: Conversion): bigint =>
  line_value_minor === 0n ? earnedMinor : divideHalfEven(earnedMinor * refunded_minor, line_value_minor);

/** The sale with the version of this change, for entries that other sales cause. */
const counted = (sale: EarnedSale, { version }: Conversion): EarnedSale =>
  sale.line === null ? sale : { ...sale, line: { ...sale.line, version } };

/**
 * Reverses commission under the terms of the sale, even if the contract has changed, from the
 * account that it was booked to. The cap of the sale's period gets its room back.
 */
const reverse = (change: Sale, memory: CommissionMemory): Emit<CommissionOutputs, CommissionMemory> => {
  const sale = conversionIn(memory, conversionKey(change.data.conversion_id));
  if (sale === undefined) return committed([nothingBack(change, undefined, "not_credited")], memory);
  const targetMinor = targetOf(sale.earned_minor, change.data);
  const partMinor = targetMinor - sale.reversed_minor;
  const entry =
    sale.entry_id === null
      ? nothingBack(change, sale, sale.reason ?? "not_credited")
      : takenBack(change, sale, partMinor);
  const left = leftOrder(change.data, sale, memory);
  const next = left?.gone.map((line) => heirOf(left.before.lines, line))[0];
  const { adjustments, unitsBack, memory: returned } = returnVolume(change.data, sale, partMinor, memory, next);
  const beside = {
    segment: sale.contract_segment,
    payable_from: sale.payable_from,
    reverses_entry_id: sale.entry_id,
  };
  const kept = { ...counted(sale, change.data), reversed_minor: targetMinor, units_back: unitsBack };
  const entries = [entry, ...adjustmentsFor(change, adjustments, beside)];
  const bought = isGone(change.data) ? withoutSale(change.data, sale, returned) : returned;
  const met = remember(returnRoom(change.data, sale, partMinor, bought), change, kept);
  if (left === undefined) return committed(entries, met);
  const moved = moveAmounts(change, left, { ...met, [left.key]: left.after });
  return committed([...entries, ...moved.entries], moved.memory);
};

/**
 * Gives back the room of the cap that the sale used. A tiered sale does this through its volume
 * instead.
 */
const returnRoom = (
  change: Conversion,
  sale: EarnedSale,
  partMinor: bigint,
  memory: CommissionMemory,
): CommissionMemory => {
  const { cap_period, contract_id, contract_segment, counts_as, units } = sale;
  if (cap_period === null || contract_id === null || units !== null || partMinor === 0n) return memory;
  const key = periodKey(cap_period, change.occurred_at, contract_segment, counts_as ?? change.event_type);
  const count = countIn(memory, key);
  return withCount(memory, key, { ...count, paid_minor: count.paid_minor - partMinor });
};

const nothingBack = (change: Sale, sale: EarnedSale | undefined, reason: string): LedgerEntry =>
  entryFor(change, {
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

const takenBack = (change: Sale, sale: EarnedSale, partMinor: bigint): LedgerEntry =>
  entryFor(change, {
    kind: "reversal",
    amount_minor: -partMinor,
    reason: change.data.reason,
    held: sale.held,
    payable_from: sale.payable_from,
    contract_id: sale.contract_id,
    contract_version: sale.contract_version,
    commission_type: sale.commission_type,
    formula:
      "amount = reversed before - earned x refunded / line value, the quotient rounded half to even to the minor unit",
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

/**
 * Makes the held commission payable. Later refunds of this sale are then taken from the payable
 * account.
 */
const release = (change: Sale, memory: CommissionMemory): Emit<CommissionOutputs, CommissionMemory> => {
  const sale = conversionIn(memory, conversionKey(change.data.conversion_id));
  if (sale === undefined) return committed([releaseEntry(change, sale)], memory);
  const { adjustments, memory: released } = releaseVolume(change.data, sale, memory);
  const beside = { segment: sale.contract_segment, payable_from: sale.payable_from, reverses_entry_id: null };
  return committed(
    [releaseEntry(change, sale), ...adjustmentsFor(change, adjustments, beside)],
    remember(released, change, { ...counted(sale, change.data), held: false, won_held: 0n }),
  );
};

const decisionOn = (
  change: Sale,
  memory: CommissionMemory,
  facts: Contracts,
): Emit<CommissionOutputs, CommissionMemory> => {
  if (change.data.kind === "reversed") return reverse(change, memory);
  return change.data.kind === "released" ? release(change, memory) : earn(change, memory, facts);
};

/**
 * Answers each conversion record with one entry, plus one for each part of its month that moved to
 * another tier (docs/design/money.md, "Commissions"). Amounts are minor units.
 */
export const commission: Processor<Conversion, CommissionOutputs, CommissionMemory, Contracts> = (
  change,
  memory,
  facts,
) => {
  const decided = decisionOn(change, memory, facts);
  const openFor = ({ occurred_at }: LedgerEntry): Month | null =>
    occurred_at === change.data.occurred_at ? facts.openMonth : facts.openMonthAt(occurred_at);
  const isOpen = decided.events.every(({ data }) => openFor(data) === null);
  if (isOpen) return decided;
  return {
    ...decided,
    events: decided.events.map((event) => {
      const month = openFor(event.data);
      return month === null ? event : { ...event, data: bookedIn(event.data, month) };
    }),
  };
};
