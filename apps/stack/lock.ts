// One stack a folder: a note with the process that runs it, which counts only while that very process lives.
import { linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { type Identity, isAlive, ourselves } from "./child.ts";
import { type Home, readJson } from "./home.ts";

/**
 * Takes the folder for this process and returns how to give it back.
 * @throws Error with the number of the process that has it.
 */
export function lockHome(home: Home): () => void {
  const file = home.path("lock.json");
  const draft = home.path(`lock.${process.pid}.new`);
  writeFileSync(draft, JSON.stringify(ourselves()), { mode: 0o600 });
  try {
    for (let left = 5; left > 0; left -= 1) {
      try {
        // A link appears with its content or not at all, and never replaces another's.
        linkSync(draft, file);
        return () => rmSync(file, { force: true });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      const holder = readJson<Identity>(file);
      if (holder !== undefined && isAlive(holder))
        throw new Error(
          `Tributary already runs in ${home.folder} as process ${holder.pid}; stop that one first (Ctrl-C in its terminal, or kill ${holder.pid}).`,
        );
      renameSync(file, `${draft}.stale`);
      rmSync(`${draft}.stale`, { force: true });
    }
    throw new Error(`${file} could not be taken; several stacks start in this folder at the same time.`);
  } finally {
    rmSync(draft, { force: true });
  }
}
