// processors/commission/earned.ts - what commission remembers: of a conversion what it earned, of a period what was counted, of a customer since when.
import { remembersBy, type UnixMs } from "../../stream/flow.ts";
import type { Cap, CapPeriod } from "../reference.ts";
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
  /** The contract's own segment: with the sale's time and type it names the counts that a refund returns to. */
  readonly contract_segment: string | null;
  readonly cap_period: CapPeriod | null;
  /** What the sale added to the volume of its month (tiered contracts), and what of that refunds took out again. */
  readonly units: bigint | null;
  readonly units_back: bigint;
  /** What the month won by this sale while it is under review, which is held with it. */
  readonly won_held: bigint;
}
/** How a tiered contract pays. Units are minor units of value, or millionths of a sale; prices are minor units a million units. */
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
/** Fields that hold bigints, wherever they stand: JSON has no such numbers. */
const BIG = new Set([
  "earned_minor",
  "reversed_minor",
  "units",
  "units_back",
  "won_held",
  "paid_minor",
  "adjusted_minor",
  "adjusted_held_minor",
  "from",
  "price",
  "amount_minor",
]);
const decoder = new TextDecoder();

const encode = (kept: Kept): Uint8Array =>
  Buffer.from(JSON.stringify({ format: FORMAT, ...kept }, (_, value) => (typeof value === "bigint" ? value.toString() : value)));

const decode = (bytes: Uint8Array): Kept => {
  const { format, ...kept } = JSON.parse(decoder.decode(bytes), (name, value) =>
    BIG.has(name) && typeof value === "string" ? BigInt(value) : value,
  );
  if (format !== FORMAT) throw new Error(`a commission was remembered in format ${format}, and only ${FORMAT} is known`);
  // Conversions came first and alone: what was written then does not say what it is, and belongs to no cap and no volume.
  if (kept.is === undefined)
    return { ...kept, is: "conversion", contract_segment: null, cap_period: null, units: null, units_back: 0n, won_held: 0n };
  return kept;
};

/** One value a conversion, a period of a contract's segment and type, a customer: none grows with the number of a partner's sales. */
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
const noCount: Count = { paid_minor: 0n, units: 0n, adjusted_minor: 0n, adjusted_held_minor: 0n, adjustments: 0, scale: null };
/** What the contract has counted under that key so far. */
export const countIn = (memory: CommissionMemory, key: string, contractId: number): Count => {
  const kept = memory[key];
  return (kept?.is === "counts" ? kept.of[contractId] : undefined) ?? noCount;
};
export const withCount = (memory: CommissionMemory, key: string, contractId: number, count: Count): CommissionMemory => {
  const kept = memory[key];
  return { ...memory, [key]: { is: "counts", of: { ...(kept?.is === "counts" ? kept.of : {}), [contractId]: count } } };
};
