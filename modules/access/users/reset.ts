// Unbinds the identity of a user, so that the next login with the address binds another one.
import type { PoolClient } from "pg";
import { conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { revokeInvitationsOf } from "../invitations/invitations.ts";
import { unbindUser } from "./identity.ts";
import { addressOf, asUsers, entityOfUser, type ListedUser, userByEmail } from "./users.ts";

/** Whether the platform API may reset users (docs/operate.md, "Reset a user over HTTP"). */
export const isResetSwitchedOn = async (tx: PoolClient): Promise<boolean> => {
  const { rows } = await tx.query<{ is_on: boolean | null }>(
    "select current_setting('tributary.reset_user', true) = 'on' as is_on",
  );
  return rows[0]?.is_on === true;
};

/**
 * Also revokes the user's pending invitations. Throws RefusalError: missing, conflict `self_reset`.
 */
export const resetUser = async ({ tx, act, audit }: Work, email: string): Promise<ListedUser> => {
  const { user, revoked_invitations } = await asUsers(tx, async () => {
    const found = await userByEmail(tx, email);
    if (found.email === addressOf(act.actor)) throw conflict("self_reset", "another admin resets you");
    await unbindUser(tx, found.user_id);
    return { user: found, revoked_invitations: await revokeInvitationsOf(tx, found.email) };
  });
  await audit({ action: "user.reset", client_id: null, entity: entityOfUser(user), after: { revoked_invitations } });
  return { ...user, bound_at: null };
};
