// The downloaded jars: checks that they are all there, and fetches them if not.
import { execFile } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Home, readJson } from "../home.ts";

/** True if every jar of the last complete download is still there in its full length. */
export function jarsAreComplete(home: Home): boolean {
  const sizes = readJson<Record<string, number>>(join(home.jars, "complete.json"));
  if (sizes === undefined) return false;
  return Object.entries(sizes).every(
    ([name, bytes]) => existsSync(join(home.jars, name)) && statSync(join(home.jars, name)).size === bytes,
  );
}

/**
 * Downloads the jars unless they are there.
 * @throws Error with the sentence of `scripts/prepare.mjs` that says what is missing.
 */
export async function fetchJars(home: Home): Promise<void> {
  if (jarsAreComplete(home)) return;
  try {
    await promisify(execFile)(process.execPath, [join(home.root, "scripts", "prepare.mjs"), "--only-jars"], {
      cwd: home.root,
    });
  } catch (error) {
    const output = String((error as { stderr?: string }).stderr ?? "").trim();
    throw new Error(output === "" ? `The jars of the embedded stack could not be fetched: ${error}` : output, {
      cause: error,
    });
  }
}
