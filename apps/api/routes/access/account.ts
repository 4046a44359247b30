// The routes of the caller's own account.
import { changeAccount } from "../../../../modules/access/users/own-account.ts";
import type { User } from "../../../../modules/access/users/users.ts";
import { changeMe, readMe } from "../../contract/access/account.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ served }: Pick<ApiPorts, "served">): readonly Route[] => {
  const shown = ({ user_id: id, role, client_ids, all_clients, ...user }: User) => ({
    ...user,
    id,
    role,
    client_ids: role === "admin" || all_clients ? null : client_ids,
    permissions: served()
      .filter(({ roles }) => roles.includes(role))
      .map(({ method, path }) => `${method} ${path}`),
  });
  return [
    route(readMe, async ({ user }) => ({ body: shown(user) })),

    route(changeMe, ({ user, input, write }) =>
      write(
        (work) => changeAccount(work, user, input),
        (changed) => ({ body: shown(changed) }),
      ),
    ),
  ];
};
