// Checks of this machine: Node, Java, Maven, the disk, the stack and its ports.
import { execFile } from "node:child_process";
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { StackConfig } from "../../../../infra/embedded/config.ts";
import { type Home, readJson } from "../../../../infra/embedded/home.ts";
import { isFree } from "../../../../infra/embedded/ports.ts";
import { listedAlive } from "../../../../infra/embedded/roster.ts";
import { jarsAreComplete } from "../../../../infra/embedded/services/jars.ts";
import type { Run } from "../../../../infra/embedded/supervisor.ts";
import { holderIn, isAlive } from "../../../../infra/runtime/lock.ts";
import { bad, type Finding, good, type NamedCheck } from "./finding.ts";

// A day of the demonstration, and the log segments that the broker preallocates.
const DISK_NEEDED_BYTES = 5 * 1024 ** 3;

/** Java and Maven are needed only where no address of Kafka is given. */
export const machineChecks = (home: Home, config: StackConfig, run: Run | undefined): readonly NamedCheck[] => [
  ["node", checkNode],
  ...(config.KAFKA_BROKERS === undefined
    ? ([
        ["java", () => checkJava(config)],
        ["maven", () => checkMaven(home, config)],
      ] as const)
    : []),
  ["disk", () => checkDisk(home)],
  ["stack", () => checkRun(home, run)],
  ["ports", () => checkPorts(home)],
];

function checkNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isNew = major > 20 || (major === 20 && minor >= 19);
  const detail = `Node ${process.versions.node}, time zones ${process.versions.tz ?? "unknown"}`;
  return isNew ? good(detail) : bad(detail, "install Node 20.19 or newer");
}

async function checkJava({ JAVA_HOME, PATH }: StackConfig): Promise<Finding> {
  const cure = "install a JDK 17 or newer, or set KAFKA_BROKERS to a running Kafka";
  try {
    const { stderr } = await promisify(execFile)(
      JAVA_HOME === undefined ? "java" : join(JAVA_HOME, "bin", "java"),
      ["-version"],
      {
        env: { PATH },
      },
    );
    const version = Number(/version "(?:1\.)?(\d+)/.exec(stderr)?.[1] ?? 0);
    return version >= 17 ? good(`Java ${version}`) : bad(`Java ${version}`, cure);
  } catch {
    return bad("no Java was found", cure);
  }
}

/** Maven is needed once, for the jars. */
async function checkMaven(home: Home, { PATH, JAVA_HOME }: StackConfig): Promise<Finding> {
  if (jarsAreComplete(home)) return good("the jars are there");
  try {
    const { stdout } = await promisify(execFile)("mvn", ["-v"], {
      env: { PATH, ...(JAVA_HOME !== undefined && { JAVA_HOME }) },
    });
    return good(`${stdout.split("\n")[0]}; the jars are fetched at the next start`);
  } catch {
    return bad(
      "no Maven was found, and the jars are not there",
      "install Maven, or set KAFKA_BROKERS and REDIS_URL to running servers",
    );
  }
}

function checkDisk(home: Home): Finding {
  const { bavail, bsize } = statfsSync(home.folder);
  const detail = `${(Number(bavail * bsize) / 1024 ** 3).toFixed(1)} GiB free at ${home.folder}`;
  return bavail * bsize >= DISK_NEEDED_BYTES
    ? good(detail)
    : bad(detail, "free some space, or set TRIBUTARY_HOME to a folder on a larger disk");
}

function checkRun(home: Home, run: Run | undefined): Finding {
  const holder = holderIn(home.path("lock.json"));
  const runs = holder !== undefined && isAlive(holder);
  if (runs) return good(`runs as process ${holder.pid}${run?.ready ? "" : ", not ready yet"}`);
  const left = listedAlive(home).map(({ name, pid }) => `${name} (process ${pid})`);
  if (left.length > 0)
    return bad(
      `its starter is gone, and what it started still runs: ${left.join(", ")}`,
      "npm start ends them, keeps the data and starts again",
    );
  if (run === undefined) return good("does not run");
  return bad(
    "run.json is left from a stack that ended without a word",
    "npm start ends what it left behind and writes a new one",
  );
}

/**
 * The ports must be free while no stack runs. A running stack occupies its own ports, and so do
 * processes that its starter left behind.
 */
async function checkPorts(home: Home): Promise<Finding> {
  const ports = Object.entries(readJson<Record<string, number>>(home.path("ports.json")) ?? {});
  const holder = holderIn(home.path("lock.json"));
  if (ports.length === 0 || (holder !== undefined && isAlive(holder))) return good(`${ports.length} chosen`);
  const left = listedAlive(home);
  const isOwn = (port: string): boolean => left.some(({ name }) => port.startsWith(name));
  const taken: string[] = [];
  for (const [name, port] of ports) if (!isOwn(name) && !(await isFree(port))) taken.push(`${name} ${port}`);
  return taken.length === 0
    ? good(`${ports.length} chosen, ${left.length === 0 ? "all free" : "none of another program"}`)
    : bad(`used by other programs: ${taken.join(", ")}`, "npm start takes others in their place");
}
