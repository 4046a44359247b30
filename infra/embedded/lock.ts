// One stack a folder: a second one is refused with the process that has it.
import { Held, lockFile } from "../runtime/lock.ts";
import type { Home } from "./home.ts";

/**
 * Takes the folder for this process and returns how to give it back.
 * @throws Error with the number of the process that has it.
 */
export function lockHome(home: Home): () => void {
  try {
    return lockFile(home.path("lock.json"));
  } catch (error) {
    if (!(error instanceof Held)) throw error;
    const { pid } = error.holder;
    throw new Error(
      `Tributary already runs in ${home.folder} as process ${pid}; stop that one first (Ctrl-C in its ` +
        `terminal, or kill ${pid}).`,
    );
  }
}
