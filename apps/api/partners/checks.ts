// What a partner must keep to that is made or changed, wherever it stands in a body.
import { randomInt } from "node:crypto";
import type { PoolClient } from "pg";
import { toMinor } from "../../../domain/money.ts";
import { Problem } from "../../../infra/http/problem.ts";
import { takenAddresses } from "../../../modules/catalog/partners/partner-reads.ts";
import { defined, fault } from "../request/accept.ts";

/** Codes of the domain for names that another partner has. */
export const PARTNER_CONFLICTS = { referral_code: "referral_code_taken" };

/** Without letters and digits that people take for each other. */
const LETTERS = "abcdefghjkmnpqrstuvwxyz23456789";
export const newReferralCode = (): string =>
  Array.from({ length: 10 }, () => LETTERS[randomInt(LETTERS.length)]).join("");

interface Addressed {
  readonly email: string;
  /** Of the partner, in the body. */
  readonly place: string;
}

/** Throws Problem 409 when another partner than this one has an address of these. */
export const refuseTaken = async (
  tx: PoolClient,
  addresses: readonly Addressed[],
  partnerId?: number | undefined,
): Promise<void> => {
  const emails = addresses.map(({ email }) => email);
  const taken = await takenAddresses(tx, emails, partnerId);
  refuseAmong(taken, addresses, "another partner has this address");
};

/** Throws Problem 409 for the first address that is among those in use, which are in lower case. */
export const refuseAmong = (inUse: ReadonlySet<string>, addresses: readonly Addressed[], why: string): void => {
  const found = addresses.find(({ email }) => inUse.has(email.toLowerCase()));
  if (found !== undefined) throw addressInUse(found.place, why);
};

const addressInUse = (pointer: string, detail: string): Problem => {
  const code = "email_in_use";
  return new Problem("conflict", detail, { code, errors: [{ pointer: `${pointer}/email`, code, detail }] });
};

interface Payout {
  readonly currency: string;
  readonly min_amount: string;
}
type GivenPayout = { readonly [K in keyof Payout]?: Payout[K] | undefined };

/** How the partner at this place is paid, whole. Throws Problem 400. */
export const checkPayout = (given: GivenPayout = {}, pointer = ""): Payout => {
  const payout = { currency: "MXN", min_amount: "0.00", ...defined(given) };
  const read = toMinor(payout.min_amount, payout.currency);
  if (read.kind === "bad_amount")
    throw fault(`${pointer}/payout/min_amount`, "bad_amount", `${read.why} (${payout.currency})`);
  return payout;
};
