// Redis without persistence: limits, fast memory and short caches, all of which can be made again.
import { execFile } from "node:child_process";
import { accessSync, chmodSync, constants, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Place, Service } from "../service.ts";
import { fetchJars } from "./jars.ts";
import { readZipEntry } from "./zip.ts";

const JAR = "embedded-redis-1.4.3.jar";
const BINARIES: Readonly<Record<string, string>> = {
  "linux-x64": "redis-server-6.2.6-v5-linux-amd64",
  "linux-arm64": "redis-server-6.2.7-linux-arm64",
  "darwin-x64": "redis-server-6.2.6-v5-darwin-amd64",
  "darwin-arm64": "redis-server-6.2.6-v5-darwin-arm64",
};

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** The `redis-server` of this machine, else the one unpacked beside the jars. */
const binary = ({ home, machine }: Place): string =>
  machine.path
    .split(delimiter)
    .map((folder) => join(folder, "redis-server"))
    .find(isExecutable) ?? join(home.jars, "redis-server");

async function unpack({ home }: Place): Promise<void> {
  const name = BINARIES[`${process.platform}-${process.arch}`];
  if (name === undefined)
    throw new Error(
      `No Redis is packed for ${process.platform} ${process.arch}; install redis-server, or set ` +
        "REDIS_URL to a running one.",
    );
  const target = join(home.jars, "redis-server");
  const draft = `${target}.${process.pid}.new`;
  writeFileSync(draft, readZipEntry(join(home.jars, JAR), name));
  chmodSync(draft, 0o755);
  try {
    await promisify(execFile)(draft, ["--version"]);
  } catch (error) {
    throw new Error(
      "The packed redis-server does not run on this system; install redis-server (apt install " +
        "redis-server, brew install redis), or set REDIS_URL.",
      {
        cause: error,
      },
    );
  }
  renameSync(draft, target);
}

/**
 * Sends one command without arguments that need quoting and returns the raw answer. @throws Error
 * when nothing answers within a second.
 */
export const askRedis = (host: string, port: number, command: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host, timeout: 1_000 }, () => socket.write(`${command}\r\n`));
    socket.once("data", (answer) => {
      socket.destroy();
      resolve(answer.toString());
    });
    socket.once("timeout", () => socket.destroy(new Error("no answer within a second")));
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("Redis closed the connection")));
  });

export const redis: Service = {
  name: "redis",
  outside: "REDIS_URL",
  after: [],
  ports: ["redis"],
  install: async (place) => {
    if (isExecutable(binary(place))) return;
    await fetchJars(place.home);
    await unpack(place);
  },
  prepare: async ({ home }) => {
    mkdirSync(home.path("redis"), { recursive: true, mode: 0o700 });
  },
  command: (place) => ({
    file: binary(place),
    args: [
      ...["--port", String(place.ports.redis), "--bind", "127.0.0.1", "--dir", place.home.path("redis")],
      // Nothing in it must survive a restart, so nothing is written to the disk.
      ...["--save", "", "--appendonly", "no", "--daemonize", "no"],
      // Limits and facts fail loudly when memory runs out, instead of vanishing.
      ...["--maxmemory-policy", "noeviction", "--maxmemory", "512mb"],
    ],
    cwd: place.home.path("redis"),
  }),
  healthy: async ({ ports }) => {
    const answer = await askRedis("127.0.0.1", ports.redis!, "PING");
    if (!answer.startsWith("+PONG")) throw new Error(`Redis answered ${answer.trim()}`);
  },
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ REDIS_URL: `redis://127.0.0.1:${ports.redis}` }),
  address: (variables) => ({ url: variables.REDIS_URL! }),
};
