// Reads routes.yaml, which says who may call which route. The router is made from it, so a route
// without a row cannot be served, and a row without a handler says `later`.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { type Role, roles } from "../../modules/access/users/users.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
/** The rows of a route that a role reaches; a role without any gets 403. */
type Access = "all" | "assigned" | "own" | "masked" | "read";

export interface RouteRow {
  readonly host: string;
  readonly method: Method;
  /** The path in the syntax of express. */
  readonly path: string;
  readonly auth: string;
  readonly access: Readonly<Partial<Record<Role, Access>>>;
  /** Fields hidden from `masked` roles; where no role is masked, hidden from every role. */
  readonly hides: readonly string[];
  /** The route is planned and not served yet. */
  readonly isLater: boolean;
}

const access = z.enum(["all", "assigned", "own", "masked", "read", "-"]).default("-");
const row = z.strictObject({
  host: z.string(),
  method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
  path: z.string().startsWith("/"),
  auth: z.string(),
  admin: access,
  client_manager: access,
  partner: access,
  client_user: access,
  viewer: access,
  hides: z.array(z.string()).default([]),
  query: z.array(z.string()).optional(),
  note: z.string().optional(),
  later: z.boolean().default(false),
});
const table = z.object({ routes: z.array(row), extra: z.array(row) });

/**
 * tsc copies no yaml, so the file is only among the sources. It is found from here and from dist/
 * by the package.json above both.
 */
const shipped = (): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return join(folder, "apps", "api", "routes.yaml");
};

/** Every row of every host. Throws on a malformed file. */
export const readRouteTable = (): readonly RouteRow[] => {
  const { routes, extra } = table.parse(parse(readFileSync(shipped(), "utf8")));
  return [...routes, ...extra].map(({ host, method, path, auth, hides, later, ...columns }) => ({
    host,
    method,
    path,
    auth,
    hides,
    isLater: later,
    access: Object.fromEntries(
      roles.flatMap((role) => (columns[role] === "-" ? [] : [[role, columns[role]]])),
    ) as RouteRow["access"],
  }));
};
