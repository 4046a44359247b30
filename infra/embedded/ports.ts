// The ports of a stack: they are chosen once and kept in `ports.json`, so that a second start
// answers on the same addresses.
import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:net";
import { type Home, readJson, writeJson } from "./home.ts";

// Below the range from which systems take the ports of outgoing connections (32768 on Linux), so
// that none of those uses one of ours between two starts.
const LOWEST = 20_000;
const HIGHEST = 32_000;
/**
 * Stacks that start at the same time take their ports from different blocks: the server of a chosen
 * port listens on it only seconds later.
 */
const BLOCK = 50;
const TRIES = 200;

/** Listens on a loopback port; undefined if this machine does not allow it. */
const listening = (port: number): Promise<Server | undefined> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });

/** True when this machine lets us listen on a loopback port now. */
export const isFree = async (port: number): Promise<boolean> => {
  const probe = await listening(port);
  if (probe !== undefined) await new Promise((resolve) => probe.close(resolve));
  return probe !== undefined;
};

/**
 * One port by name, and the previous choice if it had to be given up because another program
 * listens there.
 */
interface ChosenPort {
  readonly name: string;
  readonly port: number;
  readonly movedFrom?: number;
}

export interface PortChoice {
  readonly chosen: readonly ChosenPort[];
  /** Call it when a server listens on each of them: until then no other stack takes them. */
  readonly release: () => void;
}

/**
 * The port of each name: the previous one if it is free, else a new one. Call it while nothing of
 * this stack runs. @throws Error when the machine has no free port left in the range.
 */
export async function choosePorts(home: Home, names: readonly string[]): Promise<PortChoice> {
  const file = home.path("ports.json");
  const kept = readJson<Record<string, number>>(file) ?? {};
  const chosen: ChosenPort[] = [];
  const guards: Server[] = [];
  const release = (): void => {
    for (const guard of guards) guard.close();
  };
  try {
    const free = freePorts(guards);
    const isOurs = reservation(guards);
    for (const name of names) {
      const before = kept[name];
      if (isPort(before) && (await isOurs(before)) && (await isFree(before))) {
        chosen.push({ name, port: before });
        continue;
      }
      const port = await nextOf(free, new Set(Object.values(kept)));
      kept[name] = port;
      chosen.push({ name, port, ...(isPort(before) && { movedFrom: before }) });
    }
    writeJson(file, kept);
    return { chosen, release };
  } catch (error) {
    release();
    throw error;
  }
}

const isPort = (port: unknown): port is number =>
  typeof port === "number" && Number.isInteger(port) && port > 0 && port < 65_536;

/**
 * Whether the block of an earlier port can be reserved again. Another stack may have chosen from it
 * while ours did not run, and its servers may not listen yet.
 */
const reservation = (guards: Server[]): ((port: number) => Promise<boolean>) => {
  const asked = new Map<number, boolean>();
  return async (port) => {
    const first = port - (port % BLOCK);
    // The first port of a block, or one outside the range, was written into the file by hand.
    if (port === first || port < LOWEST || port >= HIGHEST) return true;
    if (!asked.has(first)) {
      const guard = await listening(first);
      asked.set(first, guard !== undefined);
      if (guard !== undefined) guards.push(guard.unref());
    }
    return asked.get(first)!;
  };
};

/**
 * Yields free ports, block by block. It listens on the first port of each block, which reserves the
 * block.
 */
async function* freePorts(guards: Server[]): AsyncGenerator<number, never> {
  for (let left = TRIES; left > 0; left -= 1) {
    const first = LOWEST + BLOCK * randomInt((HIGHEST - LOWEST) / BLOCK);
    const guard = await listening(first);
    if (guard === undefined) continue;
    guards.push(guard.unref());
    for (let port = first + 1; port < first + BLOCK; port += 1) if (await isFree(port)) yield port;
  }
  throw new Error(
    `No free port was found between ${LOWEST} and ${HIGHEST}; stop some of the programs that listen there.`,
  );
}

const nextOf = async (free: AsyncGenerator<number, never>, taken: ReadonlySet<number>): Promise<number> => {
  for (;;) {
    const { value: port } = await free.next();
    if (!taken.has(port)) return port;
  }
};
