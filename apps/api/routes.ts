// Finds the routes of the platform API: each file below routes/ exports `routes`, and each route
// has a row in routes.yaml, which says who may call it.
import { readdirSync } from "node:fs";
import type { Role } from "../../modules/access/users/users.ts";
import type { ApiPorts, Route, ServedRoute } from "./route.ts";
import { type RouteRow, readRouteTable } from "./route-table.ts";

interface RouteFile {
  readonly routes: (ports: ApiPorts) => readonly Route[];
}

/**
 * The routes of all files with their rows. Throws on a route without a row, on a route with two
 * handlers, and on a credential that this host does not check.
 */
export const routesOf = async (ports: Omit<ApiPorts, "served">): Promise<readonly ServedRoute[]> => {
  const folder = new URL("./routes/", import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.[jt]s$/.test(file));
  const found: readonly RouteFile[] = await Promise.all(files.sort().map((file) => import(new URL(file, folder).href)));
  const all: readonly ServedRoute[] = served(
    found.flatMap(({ routes }) => routes({ ...ports, served: () => all })),
    readRouteTable(),
  );
  return all;
};

/** Gives each route its row. */
export const served = (routes: readonly Route[], table: readonly RouteRow[]): readonly ServedRoute[] => {
  const rows = new Map(table.filter(({ host }) => host === "api").map((row) => [`${row.method} ${row.path}`, row]));
  const names = routes.map(({ contract }) => contract.route);
  const twice = names.find((name, n) => names.indexOf(name) !== n);
  if (twice !== undefined) throw new Error(`${twice} has two handlers`);
  return routes.map((route) => {
    const row = rows.get(route.contract.route);
    if (row === undefined) throw new Error(`${route.contract.route} has no row in apps/api/routes.yaml`);
    const { method, path, auth } = row;
    if (auth !== "none" && auth !== "user" && auth !== "service-token" && auth !== "invitation" && auth !== "hmac")
      throw new Error(`${route.contract.route}: no check of ${auth} is built`);
    return { ...route, method, path, auth, roles: Object.keys(row.access) as readonly Role[], row };
  });
};
