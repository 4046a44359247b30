// The routes of users.
import { changeUser } from "../../../../modules/access/users/change.ts";
import { createUser } from "../../../../modules/access/users/create.ts";
import { isResetSwitchedOn, resetUser } from "../../../../modules/access/users/reset.ts";
import { userRows } from "../../../../modules/access/users/user-reads.ts";
import type { ListedUser } from "../../../../modules/access/users/users.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import * as contracts from "../../contract/access/users.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listUsers, ({ list, query }) => list(userRows(query))),

  route(contracts.createUser, ({ write, input }) =>
    write(
      (work) => createUser(work, input),
      (user) => ({ body: shown(user), headers: { Location: `/api/users/${user.user_id}` } }),
    ),
  ),

  route(contracts.changeUser, ({ write, params, input, version }) =>
    write(
      (work) => changeUser(work, { user: { user_id: params.id }, patch: input, version }),
      (user) => ({ body: shown(user) }),
    ),
  ),

  route(contracts.resetUser, ({ write, query }) =>
    write(async (work) => {
      if (!(await isResetSwitchedOn(work.tx))) throw missing();
      await resetUser(work, query.email);
    }),
  ),
];

const shown = ({ user_id: id, ...user }: ListedUser) => ({ id, ...user });
