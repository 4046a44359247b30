// What commission remembers: of a conversion what it earned, of a period what was counted, of a
// customer since when.

import type { Cap, CapPeriod } from "../../domain/reference/reference.ts";
import { remembersBy, type UnixMs } from "../../stream/flow.ts";
import { subKeysOf } from "./sub-keys.ts";

export interface Earned {
  readonly is: "conversion";
  /** The entry that a reversal names; null when nothing was earned, for `reason`. */
  readonly entry_id: string | null;
  readonly reason: string | null;
  readonly earned_minor: bigint;
  readonly reversed_minor: bigint;
  readonly held: boolean;
  readonly payable_from: UnixMs | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  readonly commission_type: string | null;
  /**
   * The contract's own segment: with the sale's time and type it names the counts that a refund
   * returns to.
   */
  readonly contract_segment: string | null;
  /** The event type whose counts it went into; null: its own, as long as each type had its counts. */
  readonly counts_as: string | null;
  readonly cap_period: CapPeriod | null;
  /**
   * What the sale added to the volume of its month (tiered contracts), and what of that refunds
   * took out again.
   */
  readonly units: bigint | null;
  readonly units_back: bigint;
  /** What the month won by this sale while it is under review, which is held with it. */
  readonly won_held: bigint;
}
/**
 * How a tiered contract pays. Units are minor units of value, or millionths of a sale; prices are
 * minor units a million units.
 */
export interface Scale {
  readonly mode: "marginal" | "retroactive";
  readonly per: "value" | "sale";
  readonly currency: string;
  readonly steps: readonly { readonly from: bigint; readonly price: bigint }[];
  readonly cap: Cap | null;
}
/** What one contract has in one period. */
export interface Count {
  /** Net of what was taken back: what a cap is compared with. */
  readonly paid_minor: bigint;
  readonly units: bigint;
  /** Sum of tier adjustments, what of that is held, and their number. */
  readonly adjusted_minor: bigint;
  readonly adjusted_held_minor: bigint;
  readonly adjustments: number;
  /** As the contract said when its last sale of the month came; null when it is not tiered. */
  readonly scale: Scale | null;
}
/** By contract: those of one period follow each other, so there are few. */
export interface Counts {
  readonly is: "counts";
  readonly of: Readonly<Record<string, Count>>;
}
export interface Customer {
  readonly is: "customer";
  readonly since: UnixMs;
}
export type Kept = Earned | Counts | Customer;
export type CommissionMemory = Readonly<Record<string, Kept>>;

/** The only form so far; an older one is recognised by its number, whatever fields come later. */
const FORMAT = 1;
const decoder = new TextDecoder();

// JSON has no bigints, so they are digits. Written out by hand: every conversion comes by here, and
// a replacer or reviver is called for each field.
const plainCount = (count: Count) => ({
  paid_minor: count.paid_minor.toString(),
  units: count.units.toString(),
  adjusted_minor: count.adjusted_minor.toString(),
  adjusted_held_minor: count.adjusted_held_minor.toString(),
  adjustments: count.adjustments,
  scale: count.scale === null ? null : plainScale(count.scale),
});
const plainScale = ({ steps, cap, ...rest }: Scale) => ({
  ...rest,
  steps: steps.map(({ from, price }) => ({ from: from.toString(), price: price.toString() })),
  cap: cap === null ? null : { period: cap.period, amount_minor: cap.amount_minor.toString() },
});
const plainOf = (kept: Kept): object => {
  if (kept.is === "customer") return kept;
  if (kept.is === "counts")
    return {
      is: kept.is,
      of: Object.fromEntries(Object.entries(kept.of).map(([id, count]) => [id, plainCount(count)])),
    };
  return {
    ...kept,
    earned_minor: kept.earned_minor.toString(),
    reversed_minor: kept.reversed_minor.toString(),
    units: kept.units === null ? null : kept.units.toString(),
    units_back: kept.units_back.toString(),
    won_held: kept.won_held.toString(),
  };
};
const encode = (kept: Kept): Uint8Array => Buffer.from(JSON.stringify({ format: FORMAT, ...plainOf(kept) }));

type Plain<T> = { readonly [Field in keyof T]: any };
const scaleOf = ({ steps, cap, ...rest }: Plain<Scale>): Scale => ({
  ...(rest as Scale),
  steps: steps.map(({ from, price }: Plain<Scale["steps"][number]>) => ({ from: BigInt(from), price: BigInt(price) })),
  cap: cap === null ? null : { period: cap.period, amount_minor: BigInt(cap.amount_minor) },
});
const countOf = (count: Plain<Count>): Count => ({
  paid_minor: BigInt(count.paid_minor),
  units: BigInt(count.units),
  adjusted_minor: BigInt(count.adjusted_minor),
  adjusted_held_minor: BigInt(count.adjusted_held_minor),
  adjustments: count.adjustments,
  scale: count.scale === null ? null : scaleOf(count.scale),
});
const decode = (bytes: Uint8Array): Kept => {
  const { format, ...kept } = JSON.parse(decoder.decode(bytes));
  if (format !== FORMAT)
    throw new Error(`a commission was remembered in format ${format}, and only ${FORMAT} is known`);
  if (kept.is === "customer") return kept;
  if (kept.is === "counts")
    return {
      is: kept.is,
      of: Object.fromEntries(Object.entries<Plain<Count>>(kept.of).map(([id, count]) => [id, countOf(count)])),
    };
  // Conversions came first and alone: what was written then does not say what it is, and belongs to
  // no cap and no volume.
  return {
    ...kept,
    is: "conversion",
    earned_minor: BigInt(kept.earned_minor),
    reversed_minor: BigInt(kept.reversed_minor),
    contract_segment: kept.contract_segment ?? null,
    counts_as: kept.counts_as ?? null,
    cap_period: kept.cap_period ?? null,
    units: kept.units == null ? null : BigInt(kept.units),
    units_back: BigInt(kept.units_back ?? 0),
    won_held: BigInt(kept.won_held ?? 0),
  };
};

/**
 * One value a conversion, a period of a contract's segment and type, a customer: none grows with
 * the number of a partner's sales.
 */
export const earned = remembersBy<Kept>({
  name: "earned",
  keyedBy: "client_id:partner_id",
  driver: "durable",
  keysOf: (event) => subKeysOf(event.data),
  encode,
  decode,
});

export const conversionIn = (memory: CommissionMemory, key: string): Earned | undefined => {
  const kept = memory[key];
  return kept?.is === "conversion" ? kept : undefined;
};
export const customerIn = (memory: CommissionMemory, key: string): UnixMs | undefined => {
  const kept = memory[key];
  return kept?.is === "customer" ? kept.since : undefined;
};
const noCount: Count = {
  paid_minor: 0n,
  units: 0n,
  adjusted_minor: 0n,
  adjusted_held_minor: 0n,
  adjustments: 0,
  scale: null,
};
/** What the contract has counted under that key so far. */
export const countIn = (memory: CommissionMemory, key: string, contractId: number): Count => {
  const kept = memory[key];
  return (kept?.is === "counts" ? kept.of[contractId] : undefined) ?? noCount;
};
export const withCount = (
  memory: CommissionMemory,
  key: string,
  contractId: number,
  count: Count,
): CommissionMemory => {
  const kept = memory[key];
  return { ...memory, [key]: { is: "counts", of: { ...(kept?.is === "counts" ? kept.of : {}), [contractId]: count } } };
};
