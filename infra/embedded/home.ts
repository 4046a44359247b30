// The folder of one embedded stack (`.tributary/`): its place, its files, and how its small JSON
// files are read and written.

import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type AppLogin, appLogins } from "../postgres/logins.ts";
import { LockHeld, lockFile } from "../runtime/lock.ts";

/** Secrets made once per folder; kept in `secrets.json`, mode 0600. */
export interface Secrets {
  readonly tributary: string;
  readonly postgresOwner: string;
  readonly postgresApp: string;
  /** The password of each app's own login. */
  readonly postgresLogins: Readonly<Record<AppLogin, string>>;
  /**
   * The passwords of ClickHouse: the owner may change tables, the app may only read and insert.
   */
  readonly clickhouseOwner: string;
  readonly clickhouseApp: string;
  readonly redisOwner: string;
  readonly redisApp: string;
  readonly login: string;
}

/**
 * The place of one stack. `root` is the repository, which all stacks share: it has the compiled
 * code and the downloaded jars.
 */
export interface Home {
  readonly root: string;
  readonly folder: string;
  readonly jars: string;
  readonly path: (...parts: string[]) => string;
}

/** The repository of this file, whether it runs from its source or from `dist/`. */
export function repositoryRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package-lock.json"))) {
    const parent = dirname(folder);
    if (parent === folder)
      throw new Error("The repository of Tributary was not found: no package-lock.json above this program.");
    folder = parent;
  }
  return folder;
}

/**
 * Opens the folder of a stack and makes it if it is missing; by default `.tributary/` in the
 * repository.
 */
export function openHome(folder?: string): Home {
  const root = repositoryRoot();
  const at = resolve(folder ?? join(root, ".tributary"));
  try {
    mkdirSync(join(at, "logs"), { recursive: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`${at} cannot be made (${code}); set TRIBUTARY_HOME to a folder that this user can write.`, {
      cause: error,
    });
  }
  return { root, folder: at, jars: join(root, ".tributary", "jars"), path: (...parts) => join(at, ...parts) };
}

/**
 * Removes all data of a stack. The caller holds the lock, and nothing of the stack runs. The jars
 * are shared and stay.
 */
export function emptyHome(home: Home): void {
  const kept = ["lock.json", "children.json", "jars"];
  for (const name of readdirSync(home.folder))
    if (!kept.includes(name)) rmSync(home.path(name), { recursive: true, force: true });
  mkdirSync(home.path("logs"), { recursive: true });
}

/** Reads a JSON file; undefined if it is missing, or was cut short by a crash or a full disk. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as T;
  } catch {
    return undefined;
  }
}

/**
 * Writes a JSON file so that readers see the old content or the new one, never half of it; mode
 * 0600.
 */
export function writeJson(file: string, value: unknown): void {
  const draft = `${file}.${process.pid}.new`;
  rmSync(draft, { force: true });
  writeFileSync(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

const password = (): string => randomBytes(18).toString("base64url");
/** A login that came later than the folder gets its password now. */
const passwordsOf = (kept: Partial<Secrets["postgresLogins"]> = {}): Secrets["postgresLogins"] => {
  const names = Object.keys(appLogins) as AppLogin[];
  return Object.fromEntries(names.map((name) => [name, kept[name] ?? password()])) as Record<AppLogin, string>;
};

/**
 * Returns the secrets of a folder, which the first call makes. @throws Error when the file is
 * damaged although data exist that only its passwords open.
 */
export function secretsOf(home: Home): Secrets {
  const file = home.path("secrets.json");
  const kept = readJson<Partial<Secrets>>(file);
  if (kept === undefined && existsSync(home.path("postgres")))
    throw new Error(
      `${file} is missing or damaged, but the data beside it need its passwords; put it back, or ` +
        `remove ${home.folder} to start afresh.`,
    );
  const secrets: Secrets = {
    tributary: kept?.tributary ?? randomBytes(32).toString("base64url"),
    postgresOwner: kept?.postgresOwner ?? password(),
    postgresApp: kept?.postgresApp ?? password(),
    postgresLogins: passwordsOf(kept?.postgresLogins),
    clickhouseOwner: kept?.clickhouseOwner ?? password(),
    clickhouseApp: kept?.clickhouseApp ?? password(),
    redisOwner: kept?.redisOwner ?? password(),
    redisApp: kept?.redisApp ?? password(),
    login: kept?.login ?? randomBytes(32).toString("base64url"),
  };
  if (JSON.stringify(secrets) !== JSON.stringify(kept)) writeJson(file, secrets);
  return secrets;
}

/**
 * Takes the folder for this process and returns the function that releases it. @throws Error with
 * the number of the process that has it.
 */
export function lockHome(home: Home): () => void {
  try {
    return lockFile(home.path("lock.json"));
  } catch (error) {
    if (!(error instanceof LockHeld)) throw error;
    const { pid } = error.holder;
    throw new Error(
      `Tributary already runs in ${home.folder} as process ${pid}; stop that one first (Ctrl-C in its ` +
        `terminal, or kill ${pid}).`,
    );
  }
}
