// What commission remembers: of a conversion what it earned, of a period what was counted, of a
// customer since when.

import type { Cap, CapPeriod } from "../../domain/reference/reference.ts";
import { remembersBy, type UnixMs } from "../../stream/flow.ts";
import { decode, encode } from "./remembered.ts";
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
  /**
   * The event type whose counts it went into; null: its own, as long as each type had its counts.
   */
  readonly counts_as: string | null;
  readonly cap_period: CapPeriod | null;
  /**
   * What the sale added to the volume of its month (tiered contracts), and what of that refunds
   * took out again.
   */
  readonly units: Volume | null;
  readonly units_back: Volume;
  /** Which part of the month's volume it belongs to; null: that of its contract, as it once was. */
  readonly table: string | null;
  /** Of a sale without `table`: what the month won by it while it is under review. */
  readonly won_held: bigint;
}
/** Tiers count money or sales; both are kept, so that a contract which counts the other goes on. */
export interface Volume {
  readonly value_minor: bigint;
  /** Millionths of a sale: one that was refunded in part counts in part. */
  readonly sales_ppm: bigint;
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
/** The part of a month's volume that was sold under one table of tiers. */
export interface Sold {
  readonly contract_id: number;
  /** The first version with this table; null: not known, as it once was. */
  readonly contract_version: number | null;
  /** When the contract begins: earlier terms fill the lower part of a month. */
  readonly since: UnixMs;
  readonly scale: Scale;
  readonly units: Volume;
  /** What of the units is under review. */
  readonly held_units: Volume;
  /** What was paid for it, adjustments included, and what of that is held. */
  readonly paid_minor: bigint;
  readonly held_minor: bigint;
  readonly adjustments: number;
  /** Held by sales that were counted before `held_units` was: it leaves with their release. */
  readonly won_held: bigint;
  /** It began to count when each contract still counted alone, and goes on so. */
  readonly is_alone: boolean;
}
/** What was counted in one period, whatever contract it was sold under. */
export interface Count {
  /** Net of what was taken back: what a cap of this period is compared with. */
  readonly paid_minor: bigint;
  readonly sold: Readonly<Record<string, Sold>>;
}
export interface Counts extends Count {
  readonly is: "counts";
}
export interface Customer {
  readonly is: "customer";
  readonly since: UnixMs;
  /** Counted for a device when persons were not: the months of its person go on from it. */
  readonly is_of_device?: boolean;
}
export type Kept = Earned | Counts | Customer;
export type CommissionMemory = Readonly<Record<string, Kept>>;

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
export const customerIn = (memory: CommissionMemory, key: string): Customer | undefined => {
  const kept = memory[key];
  return kept?.is === "customer" ? kept : undefined;
};
const NO_COUNT: Count = { paid_minor: 0n, sold: {} };
/** What was counted under that key so far. */
export const countIn = (memory: CommissionMemory, key: string): Count => {
  const kept = memory[key];
  return kept?.is === "counts" ? kept : NO_COUNT;
};
export const withCount = (memory: CommissionMemory, key: string, count: Count): CommissionMemory => ({
  ...memory,
  [key]: { ...count, is: "counts" },
});
