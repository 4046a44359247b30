// Ports of a stack: chosen once, kept in `ports.json`, so that a second start answers on the same
// addresses.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { type Home, readJson, writeJson } from "./home.ts";

// Below the range from which systems take the ports of outgoing connections (32768 on Linux), so
// that none of those lands on ours between two starts.
const LOWEST = 20_000;
const HIGHEST = 32_000;
const TRIES = 200;

/** True when this machine lets us listen on a loopback port now. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/**
 * One port by name, and whether a former choice had to be given up because another program listens
 * there.
 */
export interface Chosen {
  readonly name: string;
  readonly port: number;
  readonly movedFrom?: number;
}

/**
 * The port of each name: the one used before when it is free, else a new one. To be called when
 * nothing of this stack runs.
 * @throws Error when the machine has no free port left in the range.
 */
export async function choosePorts(home: Home, names: readonly string[]): Promise<readonly Chosen[]> {
  const file = home.path("ports.json");
  const kept = readJson<Record<string, number>>(file) ?? {};
  const taken = new Set(Object.values(kept));
  const chosen: Chosen[] = [];
  for (const name of names) {
    const before = kept[name];
    if (isPort(before) && (await isFree(before))) {
      chosen.push({ name, port: before });
      continue;
    }
    const port = await anyFree(taken);
    taken.add(port);
    kept[name] = port;
    chosen.push({ name, port, ...(isPort(before) && { movedFrom: before }) });
  }
  writeJson(file, kept);
  return chosen;
}

const isPort = (port: unknown): port is number =>
  typeof port === "number" && Number.isInteger(port) && port > 0 && port < 65_536;

async function anyFree(taken: ReadonlySet<number>): Promise<number> {
  for (let left = TRIES; left > 0; left -= 1) {
    const port = randomInt(LOWEST, HIGHEST);
    if (!taken.has(port) && (await isFree(port))) return port;
  }
  throw new Error(
    `No free port was found between ${LOWEST} and ${HIGHEST}; stop some of the programs that listen there.`,
  );
}
