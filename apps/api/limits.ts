// How many requests a minute are let through, by the plan of the caller's client and by its role.
import type { Role } from "../../modules/access/users/users.ts";

/** docs/design/contracts.md, "Limits". */
export const USUAL = 600;
/** Simulations, exports and the assistant. */
const HEAVY = 60;
/** Of an address without a token: documentation, and checks of invitations. */
export const OF_ADDRESS = 60;

/** Leads that a client may push. */
export const OF_LEADS = 100_000;

/** What differs from the usual; a plan that is not here has the usual. */
const byPlan: Readonly<Record<string, Readonly<Partial<Record<Role, number>>>>> = {
  standard: {},
  // An integration of a large client reads for all of its staff with one user.
  enterprise: { client_manager: 3_000, client_user: 3_000 },
};

export const limitOf = (role: Role, plan: string | undefined, isHeavy: boolean): number =>
  isHeavy ? HEAVY : ((plan === undefined ? undefined : byPlan[plan]?.[role]) ?? USUAL);
