// A folder that belongs to one process: a note with its holder, which counts only while that very
// process lives.
import { execFileSync } from "node:child_process";
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";

/** A process number alone is reused by the system; with its start time it names one process. */
export interface Identity {
  readonly pid: number;
  readonly started: string;
}

/**
 * When the process of this number started, in the system's own words; undefined when there is none
 * (a zombie is none).
 */
export const startOf = (pid: number): string | undefined => {
  if (process.platform === "linux") {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // The name in field 2 may hold spaces and brackets: fields are counted behind the last
      // bracket. Field 3 is the state, 22 the start time.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
    } catch {
      return undefined;
    }
  }
  try {
    const line = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
    return line === "" || line.startsWith("Z") ? undefined : line.slice(line.indexOf(" ") + 1);
  } catch {
    return undefined;
  }
};

export const isAlive = (identity: Identity): boolean => startOf(identity.pid) === identity.started;

/** The process that is running this code. */
const ourselves = (): Identity => ({ pid: process.pid, started: startOf(process.pid) ?? "" });

/** Another process that lives has it. */
export class LockHeld extends Error {
  readonly holder: Identity;
  constructor(file: string, holder: Identity) {
    super(`${file} is held by process ${holder.pid}`);
    this.name = "Held";
    this.holder = holder;
  }
}

/**
 * Takes the note for this process and returns how to give it back. Throws Held, or what the disk
 * says. Processes in containers of their own do not see each other's numbers: there a folder must
 * not be given to two.
 *
 * Known gap: of three that start at the same instant on the note of one that is gone, two may take
 * it (takeAway); no call removes a file only if it is still the one that was read.
 */
export const lockFile = (file: string): (() => void) => {
  const draft = `${file}.${process.pid}.new`;
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
      const holder = holderOf(file);
      if (holder !== undefined && isAlive(holder)) throw new LockHeld(file, holder);
      takeAway(file, `${draft}.stale`);
    }
    throw new Error(`${file} could not be taken; several processes start on it at the same time.`);
  } finally {
    rmSync(draft, { force: true });
  }
};

/**
 * Removes a stale note. Another starter may have put its own in its place since it was read: that
 * one is given back, and Held is thrown.
 */
const takeAway = (file: string, aside: string): void => {
  try {
    renameSync(file, aside);
    const holder = holderOf(aside);
    if (holder === undefined || !isAlive(holder)) return;
    linkSync(aside, file);
    throw new LockHeld(file, holder);
  } catch (error) {
    // Another starter was faster, in taking the stale note away or in linking its own: the
    // holder of the folder is seen at the next look.
    if (!["ENOENT", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
};

/** Undefined when the note is gone or cut short: it names no holder. */
const holderOf = (file: string): Identity | undefined => {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Identity;
  } catch {
    return undefined;
  }
};
