// What commission remembers: the earnings of each conversion, the counts of each period, and the
// first sale of each customer.

import { remembersBy } from "../../stream/flow.ts";
import { type Count, type Customer, decode, type EarnedSale, encode, type RememberedMoney } from "./memory-format.ts";
import { subKeysOf } from "./sub-keys.ts";

export type CommissionMemory = Readonly<Record<string, RememberedMoney>>;

/**
 * One value each for a conversion, for a period of a contract's segment and type, and for a
 * customer. None of them grows with the number of a partner's sales.
 */
export const earned = remembersBy<RememberedMoney>({
  name: "earned",
  keyedBy: "client_id:partner_id",
  driver: "durable",
  keysOf: (event) => subKeysOf(event.data),
  encode,
  decode,
});

export const conversionIn = (memory: CommissionMemory, key: string): EarnedSale | undefined => {
  const kept = memory[key];
  return kept?.is === "conversion" ? kept : undefined;
};
export const customerIn = (memory: CommissionMemory, key: string): Customer | undefined => {
  const kept = memory[key];
  return kept?.is === "customer" ? kept : undefined;
};
const NO_COUNT: Count = { paid_minor: 0n, sold: {} };
/** The current counts under this key. */
export const countIn = (memory: CommissionMemory, key: string): Count => {
  const kept = memory[key];
  return kept?.is === "counts" ? kept : NO_COUNT;
};
export const withCount = (memory: CommissionMemory, key: string, count: Count): CommissionMemory => ({
  ...memory,
  [key]: { ...count, is: "counts" },
});
