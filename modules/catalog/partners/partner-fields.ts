// Rules for fields of a partner beyond their format: its address, its payout, its referral code.
import { randomInt } from "node:crypto";
import type { PoolClient } from "pg";
import { toMinor } from "../../../domain/money.ts";
import { emailInUse } from "../../access/users/users.ts";
import { invalid } from "../../base/refusal.ts";
import { takenAddresses } from "./partner-reads.ts";

/** Refusal codes for values that another partner uses already. */
export const PARTNER_CONFLICTS = { referral_code: "referral_code_taken" };

/** Leaves out letters and digits that people confuse. */
const LETTERS = "abcdefghjkmnpqrstuvwxyz23456789";
export const newReferralCode = (): string =>
  Array.from({ length: 10 }, () => LETTERS[randomInt(LETTERS.length)]).join("");

interface AddressAt {
  readonly email: string;
  /** The partner's place in the input. */
  readonly place: string;
}

/** Throws RefusalError `email_in_use` if another partner has one of the addresses. */
export const refuseTaken = async (
  tx: PoolClient,
  addresses: readonly AddressAt[],
  partnerId?: number | undefined,
): Promise<void> => {
  const emails = addresses.map(({ email }) => email);
  const taken = await takenAddresses(tx, emails, partnerId);
  refuseAmong(taken, addresses, "another partner has this address");
};

/**
 * Refuses the first address in `inUse`, which is in lower case. The default message is about users.
 */
export const refuseAmong = (inUse: ReadonlySet<string>, addresses: readonly AddressAt[], why?: string): void => {
  const found = addresses.find(({ email }) => inUse.has(email.toLowerCase()));
  if (found !== undefined) throw emailInUse(`${found.place}/email`, why);
};

export interface Payout {
  readonly currency: string;
  readonly min_amount: string;
}
export type PayoutInput = { readonly [K in keyof Payout]?: Payout[K] | undefined };

/** The complete payout settings, with defaults. Throws RefusalError: invalid `bad_amount`. */
export const payoutOf = (input: PayoutInput = {}, place = ""): Payout => {
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  const payout: Payout = { currency: "MXN", min_amount: "0.00", ...given };
  const read = toMinor(payout.min_amount, payout.currency);
  if (read.kind === "bad_amount")
    throw invalid(`${place}/payout/min_amount`, "bad_amount", `${read.why} (${payout.currency})`);
  return payout;
};
