// Finds the routes of the platform API: each file of routes/ exports `routes`, so a new file is all
// that a new route needs.
import { readdirSync } from "node:fs";
import type { ApiPorts, Route } from "./route.ts";

interface RouteFile {
  readonly routes: (ports: ApiPorts) => readonly Route[];
}

export const routesOf = async (ports: ApiPorts): Promise<readonly Route[]> => {
  const folder = new URL("./routes/", import.meta.url);
  const files = readdirSync(folder).filter((file) => /\.[jt]s$/.test(file));
  const found: readonly RouteFile[] = await Promise.all(files.sort().map((file) => import(new URL(file, folder).href)));
  return found.flatMap(({ routes }) => routes(ports));
};
