// The list of processes that a stack has spawned, on disk, so that the next start can end those of
// a supervisor that crashed.
import { type Identity, isAlive } from "../runtime/lock.ts";
import { endProcess, signal } from "./child.ts";
import { type Home, readJson, writeJson } from "./home.ts";

interface Entry extends Identity {
  readonly name: string;
}

export interface Roster {
  /** Call it right after a spawn: a process that is not on the list is not found again. */
  readonly add: (name: string, process: Identity) => void;
  readonly remove: (name: string) => void;
}

// A broker flushes its log within this time; a process that does not end by itself is killed, and
// recovers at its next start.
const ORPHAN_DEADLINE_MS = 15_000;

/** The listed processes of the last start that still live, latest first. */
export const listedAlive = (home: Home): readonly Entry[] =>
  (readJson<Entry[]>(home.path("children.json")) ?? []).filter(isAlive).reverse();

/**
 * Ends the processes of the last list, and opens an empty one; returns the ended processes too,
 * latest first.
 */
export async function openRoster(
  home: Home,
): Promise<{ readonly roster: Roster; readonly reclaimed: readonly Entry[] }> {
  const file = home.path("children.json");
  const left = listedAlive(home);
  // One after the other: a worker must be able to flush into stores that still run.
  for (const orphan of left)
    await endProcess(orphan, orphan.name === "postgres" ? "SIGINT" : "SIGTERM", ORPHAN_DEADLINE_MS);
  const entries = new Map<string, Entry>();
  const keep = () => writeJson(file, [...entries.values()]);
  keep();
  return {
    reclaimed: left,
    roster: {
      add: (name, { pid, started }) => {
        entries.delete(name);
        entries.set(name, { name, pid, started });
        keep();
      },
      remove: (name) => {
        if (entries.delete(name)) keep();
      },
    },
  };
}

/** Kills every listed process at once; for a process that is about to exit and cannot wait. */
export function killListed(home: Home): void {
  for (const entry of readJson<Entry[]>(home.path("children.json")) ?? []) signal(entry, "SIGKILL");
}
