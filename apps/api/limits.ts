// The number of requests a minute that are allowed, by the plan of the caller's client and by its
// role.
import type { Role } from "../../modules/access/users/users.ts";

/** Requests a minute; docs/design/contracts.md, "Limits". */
export const USUAL = 600;
/** The limit of simulations, exports and the assistant. */
const HEAVY = 60;
/** The limit of an address that reads documentation or checks an invitation without a token. */
export const OF_ADDRESS = 60;

/** What a user asks of figures, files and trials at once; a page of a dashboard asks six. */
export const DEAR = {
  ...{ atOnce: 2, mostWaiting: 60, patienceMs: 10_000 },
  says: "two of your reads of figures, files or trials run already: wait for their answers",
};

/** The leads that a client may push a minute. */
export const OF_LEADS = 100_000;

/** Limits that differ from the usual one, by plan and role. */
const byPlan: Readonly<Record<string, Readonly<Partial<Record<Role, number>>>>> = {
  standard: {},
  // The integration of a large client reads with one user for all of its staff.
  enterprise: { client_manager: 3_000, client_user: 3_000 },
};

export const limitOf = (role: Role, plan: string | undefined, isHeavy: boolean): number =>
  isHeavy ? HEAVY : ((plan === undefined ? undefined : byPlan[plan]?.[role]) ?? USUAL);
