// The routes of the platform API and the table of who may call them: each route has its row, with
// the same credential and the same roles.
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { routesOf } from "../../apps/api/routes.ts";
import { roles } from "../../modules/access/users.ts";

interface Row {
  readonly host: string;
  readonly method: string;
  readonly path: string;
  readonly auth: string;
}
const { routes: specified, extra } = parse(readFileSync("apps/api/routes.yaml", "utf8")) as {
  routes: readonly Row[];
  extra: readonly Row[];
};
const table = [...specified, ...extra];
/** Nothing is opened: a route is data and a function. */
const routes = await routesOf({} as never);

describe("the platform API", () => {
  test.each(routes)("$method $path is called by those of its row", ({ method, path, auth, roles: allowed = [] }) => {
    const rows = table.filter((row) => row.host === "api" && row.method === method && row.path === path);
    expect(rows).toHaveLength(1);
    const row = rows[0] as Row & Readonly<Record<string, string>>;
    expect(row.auth).toBe(auth);
    expect(roles.filter((role) => (row[role] ?? "-") !== "-")).toEqual(roles.filter((role) => allowed.includes(role)));
  });

  test("serves the routes of every file of its folder", () => {
    const folder = "apps/api/routes/";
    const declared = readdirSync(folder).flatMap((file) =>
      [...readFileSync(`${folder}${file}`, "utf8").matchAll(/path: "(.*?)"/g)].map(([, path]) => path!),
    );
    expect(routes.map(({ path }) => path).sort()).toEqual(declared.sort());
  });

  test("has no route twice", () => {
    const names = routes.map(({ method, path }) => `${method} ${path}`);
    expect(new Set(names).size).toBe(names.length);
  });
});
