// The routes of users.
import type { PoolClient } from "pg";
import { Problem } from "../../../../infra/http/problem.ts";
import { revokeInvitationsOf } from "../../../../modules/access/invitations/invitations.ts";
import { userRows } from "../../../../modules/access/users/user-reads.ts";
import {
  asUsers,
  changeUser,
  createUser,
  type KnownTenants,
  type ListedUser,
  UserRefused,
  unbindUser,
  userByEmail,
  userToChange,
} from "../../../../modules/access/users/users.ts";
import * as contracts from "../../contract/access/users.ts";
import { defined, fault, notFound } from "../../request/accept.ts";
import { type Route, route, type Work } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listUsers, ({ list, query }) => list(userRows(query))),

  route(contracts.createUser, ({ write, body }) =>
    write(async (work) => {
      const { tx, audit } = work;
      const user = await asUsers(tx, () => createUser(tx, defined(body), tenantsIn(work))).catch(asProblem);
      await audit({ action: "user.created", client_id: null, entity: entity(user), after: settings(user) });
      return { body: shown(user), headers: { Location: `/api/users/${user.user_id}` } };
    }),
  ),

  route(contracts.changeUser, ({ write, params, body, checkVersion }) =>
    write(async (work) => {
      const { tx, audit } = work;
      const { version: _, ...given } = body;
      const patch = defined(given);
      const { before, after } = await asUsers(tx, async () => {
        const found = await userToChange(tx, params.id);
        checkVersion(found.version);
        if (Object.keys(patch).length === 0) return { before: found, after: found };
        return { before: found, after: await changeUser(tx, params.id, patch, tenantsIn(work)) };
      }).catch(asProblem);
      if (after !== before)
        await audit({
          action: "user.updated",
          client_id: null,
          entity: entity(after),
          before: settings(before),
          after: settings(after),
        });
      return { body: shown(after) };
    }),
  ),

  route(contracts.resetUser, ({ write, query, user }) =>
    write(async ({ tx, audit }) => {
      if (!(await mayReset(tx))) throw notFound();
      const found = await asUsers(tx, async () => {
        const { user_id, email } = await userByEmail(tx, query.email);
        if (user_id === user.user_id) throw new Problem("conflict", "another admin resets you", { code: "self_reset" });
        await unbindUser(tx, user_id);
        return { user_id, invitations: await revokeInvitationsOf(tx, email) };
      }).catch(asProblem);
      const after = { revoked_invitations: found.invitations };
      await audit({ action: "user.reset", client_id: null, entity: entity(found), after });
      return {};
    }),
  ),
];

/** Switched on by the address of Postgres: docs/operate.md, "Reset a user over HTTP". */
const mayReset = async (tx: PoolClient): Promise<boolean> => {
  const { rows } = await tx.query<{ is_on: boolean | null }>(
    "select current_setting('tributary.reset_user', true) = 'on' as is_on",
  );
  return rows[0]?.is_on === true;
};

/** An admin sees every client; which partner a user belongs to is not changed here. */
const tenantsIn = ({ scope }: Work): KnownTenants => {
  const clients = new Set(scope.clients);
  return { client: (id) => clients.has(id) || undefined, partner: () => true };
};

const entity = ({ user_id }: Pick<ListedUser, "user_id">): string => `user:${user_id}`;
const shown = ({ user_id: id, ...user }: ListedUser) => ({ id, ...user });
const settings = ({ name, role, partner_id, client_ids, status, locale }: ListedUser) => ({
  name,
  role,
  partner_id,
  client_ids,
  status,
  locale,
});

/** What the rules of users refuse, with its place. */
const asProblem = (error: unknown): never => {
  if (!(error instanceof UserRefused)) throw error;
  const { code, field, message } = error;
  if (code === "unknown_user") throw notFound();
  if (code === "bad_user") throw fault(`/${field}`, code, message);
  throw new Problem("conflict", message, { code, errors: [{ pointer: `/${field}`, code, detail: message }] });
};
