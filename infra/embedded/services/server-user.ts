// The user that Postgres runs as when we are root, and folders that such a user can reach, which
// the home of root is not.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface User {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Postgres refuses to run as root, so it then runs as a user that the system already has. Undefined
 * if we are not root.
 */
export function serverUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  for (const name of ["postgres", "nobody"]) {
    const account = accounts.find((fields) => fields[0] === name);
    if (account) return { uid: Number(account[2]), gid: Number(account[3]) };
  }
  throw new Error(
    "Postgres does not run as root, and this system has neither a user `postgres` nor `nobody`; " +
      "start as an ordinary user, or set POSTGRES_URL.",
  );
}

/** True if `user` may reach a folder. */
export function canReach(user: User, folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    const { mode, uid, gid } = statSync(at);
    const mayEnter = uid === user.uid ? mode & 0o100 : gid === user.gid ? mode & 0o010 : mode & 0o001;
    if (!mayEnter) return false;
    if (at === dirname(at)) return true;
  }
}

const OUTSIDE = "/var/tmp";

/**
 * A folder that every user can reach, for files that must not be in a folder of root. There is one
 * for each `folder`, whose name it contains.
 */
export const outside = (folder: string): string =>
  join(OUTSIDE, `tributary-${createHash("sha256").update(folder).digest("hex").slice(0, 12)}`);

/**
 * Makes the folder for `folder`, and removes those whose own folder is gone. @throws Error when
 * another user has made it first.
 */
export function openOutside(folder: string): void {
  const at = outside(folder);
  mkdirSync(at, { recursive: true, mode: 0o755 });
  if (statSync(at).uid !== 0)
    throw new Error(
      `${at} belongs to another user; have it removed, or set TRIBUTARY_HOME to a folder that every user can reach.`,
    );
  writeFileSync(join(at, "of"), folder);
  // A person who removes a folder would not look for the rest of it here.
  for (const name of readdirSync(OUTSIDE).filter((entry) => /^tributary-[0-9a-f]{12}$/.test(entry))) {
    const note = join(OUTSIDE, name, "of");
    if (existsSync(note) && statSync(note).uid === 0 && !existsSync(readFileSync(note, "utf8")))
      rmSync(join(OUTSIDE, name), { recursive: true, force: true });
  }
}
