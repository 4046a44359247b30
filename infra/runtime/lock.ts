// A folder that belongs to one process: a note names its holder, and counts only while that very
// process lives. The note is a symbolic link that leads nowhere: it appears with its content or not
// at all, never replaces another one, and takes no room on a full disk.
import { execFileSync } from "node:child_process";
import { readFileSync, readlinkSync, renameSync, rmSync, symlinkSync } from "node:fs";

/** The system reuses process numbers; a number with its start time names one process. */
export interface Identity {
  readonly pid: number;
  readonly started: string;
}

/**
 * When the process of this number started, in the system's own words; undefined if there is none (a
 * zombie does not count).
 */
export const startOf = (pid: number): string | undefined => {
  if (process.platform === "linux") {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // The name in field 2 may contain spaces and brackets, so fields are counted after the last
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

/** Another living process holds it. */
export class LockHeld extends Error {
  readonly holder: Identity;
  constructor(file: string, holder: Identity) {
    super(`${file} is held by process ${holder.pid}`);
    this.name = "Held";
    this.holder = holder;
  }
}

/**
 * Takes the note for this process and returns the function that releases it. Throws LockHeld, or
 * the error of the disk. Processes in separate containers do not see each other's numbers, so a
 * folder must not be given to two containers.
 *
 * Known gap: if three processes start at the same instant on the note of a dead one, two may take
 * it (takeAway), because no call removes a file only if it is still the file that was read.
 */
export const lockFile = (file: string): (() => void) => {
  for (let left = 5; left > 0; left -= 1) {
    if (isTaken(file, ourselves())) return () => rmSync(file, { force: true });
    const holder = holderIn(file);
    if (holder !== undefined && isAlive(holder)) throw new LockHeld(file, holder);
    takeAway(file, `${file}.${process.pid}.stale`);
  }
  throw new Error(`${file} could not be taken; several processes start on it at the same time.`);
};

/** False if there is a note already. */
const isTaken = (file: string, { pid, started }: Identity): boolean => {
  try {
    symlinkSync(`${pid} ${started}`, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
};

/**
 * Removes a stale note. If another starter has put its own note there since it was read, that note
 * is put back, and LockHeld is thrown.
 */
const takeAway = (file: string, aside: string): void => {
  try {
    renameSync(file, aside);
  } catch (error) {
    // Another process was faster. The next try finds the holder of the folder.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  const holder = holderIn(aside);
  rmSync(aside, { force: true });
  if (holder !== undefined && isAlive(holder) && isTaken(file, holder)) throw new LockHeld(file, holder);
};

/** The holder that a note names; undefined if there is no note or it is cut short. */
export const holderIn = (file: string): Identity | undefined => {
  try {
    const [, pid, started] = /^(\d+) (.*)$/s.exec(readlinkSync(file)) ?? [];
    return started === undefined ? undefined : { pid: Number(pid), started };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EINVAL" ? holderInFile(file) : undefined;
  }
};

/** Notes of the release before are files. */
const holderInFile = (file: string): Identity | undefined => {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Identity;
  } catch {
    return undefined;
  }
};
