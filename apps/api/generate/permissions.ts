// Writes docs/permissions.md and docs/permissions.csv from routes.yaml, the router and the shapes
// of answers. With --check it only compares them.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { permissionsCsv, permissionsOf, permissionsPage } from "../permissions.ts";
import { readRouteTable } from "../route-table.ts";
import { routesOf } from "../routes.ts";

/** Routes are data and functions, so no port has to be open. */
const permissions = permissionsOf(readRouteTable(), await routesOf({} as never));
const files = {
  "docs/permissions.md": permissionsPage(permissions),
  "docs/permissions.csv": permissionsCsv(permissions),
};
for (const [file, text] of Object.entries(files)) {
  if (!process.argv.includes("--check")) writeFileSync(file, text);
  else if (!existsSync(file) || readFileSync(file, "utf8") !== text) {
    console.error(`${file} is not what routes.yaml and the contracts say; run: npm run permissions`);
    process.exitCode = 1;
  }
}
