// The compiled program that runs the servers of this repository.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Home } from "./home.ts";

/** The compiled file of `serve.ts`. @throws Error when nothing has been compiled yet. */
export function compiledServer(home: Home): string {
  const file = join(home.root, "dist", "infra", "embedded", "servers", "serve.js");
  if (!existsSync(file)) throw new Error(`${file} is missing; compile first: npm run build.`);
  return file;
}
