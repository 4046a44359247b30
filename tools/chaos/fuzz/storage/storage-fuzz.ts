// `npm run fuzz -- --storage`: what a stranger can make the product store, door by door.

import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, table } from "../../../../infra/runtime/output.ts";
import type { Demo } from "../../../../modules/running/installation/seed.ts";
import type { Target } from "../../target.ts";
import { statusText, type Verdict } from "../findings.ts";
import { progress } from "../progress.ts";
import type { Door, World } from "./door.ts";
import { doorsOf } from "./doors.ts";
import { type KeptBytes, stores, sumOf } from "./kept-bytes.ts";
import { type Measurement, MOST_KEPT, openStorage, ratioOf } from "./measure.ts";
import { openWorld } from "./world.ts";

export interface StorageFuzz {
  readonly minutes: number;
  readonly seed: number;
  /** The doors whose names begin so; all of them by default. */
  readonly door: string | undefined;
}

const QUIET_MS = 15_000;
/** A shape sends this much in a round; small bodies end by the time. */
const ROUND = { mostBytes: 2 * 1024 * 1024, mostMs: 5_000 };
const KIB = 1024;
const MINUTE_MS = 60_000;

const kib = (bytes: number): number => Math.round(bytes / KIB);
const ratioText = (one: Pick<Measurement, "sent" | "kept">): string => ratioOf(one).toFixed(2);

const chosen = (doors: readonly Door[], name: string | undefined): readonly Door[] => {
  const found = doors.filter((door) => name === undefined || door.name.startsWith(name));
  if (found.length > 0) return found;
  throw new UsageError(`--door ${name}: the doors are ${doors.map((door) => door.name).join("; ")}`);
};

const NOWHERE: World = { clientId: 0, code: "", token: "", source: "", ticket: "", run: "" };
/** Before anything starts, so that a mistyped name costs nothing. */
export const checkDoor = (name: string | undefined): void => void chosen(doorsOf(NOWHERE), name);

/** What is taken off: the growth of each store while nothing is sent. */
export const quietText = (byItself: KeptBytes): string => {
  const rates = stores.map((store) => `${store} ${kib(byItself[store] * MINUTE_MS)}`);
  return `KiB a minute while nothing is sent: ${rates.join(", ")}`;
};

/** One row a shape, with the bytes of each store in KiB. */
export const storageTable = (all: readonly Measurement[]): string =>
  table(
    ["door", "shape", "requests", "answers", "sent KiB", ...stores, "ratio"],
    all.map((one) => [
      ...[one.door, one.shape, one.requests, statusText(one.statuses), kib(one.sent)],
      ...stores.map((store) => kib(one.kept[store])),
      ratioText(one),
    ]),
  );

/** The shapes of each door as one, in which the dearest shape stands for the door. */
const verdictOf = (name: string, shapes: readonly Measurement[]): Verdict => {
  const worst = shapes.reduce((dearest, one) => (ratioOf(one) > ratioOf(dearest) ? one : dearest));
  return {
    says: `${name}: at most ${MOST_KEPT} bytes are kept of each that is sent`,
    isKept: ratioOf(worst) <= MOST_KEPT,
    figure: `${ratioText(worst)}: ${worst.shape}; ${kib(sumOf(worst.kept))} KiB of ${kib(worst.sent)}`,
  };
};

/** Statuses of a server that failed, and connections that broke. */
export const faultsOf = (all: readonly Measurement[]): readonly string[] =>
  all.flatMap(({ door, shape, statuses }) =>
    [...statuses]
      .filter(([status]) => status === 0 || status >= 500)
      .map(([status, times]) => `${door}, ${shape}: ${times} times ${status === 0 ? "no answer" : status}`),
  );

/** The apps that run, each with the number of its process. */
export const processesOf = ({ run, pid }: Target): readonly string[] =>
  Object.keys(run().apps).map((name) => `${name} ${pid(name)}`);

/** Every shape of every door by turns, until the time is over; each at least once. */
const measured = async (
  target: Target,
  doors: readonly Door[],
  { minutes, seed }: StorageFuzz,
): Promise<readonly Measurement[]> => {
  const until = performance.now() + minutes * MINUTE_MS;
  progress(`seed ${seed}: ${doors.length} doors; at first nothing is sent for ${QUIET_MS / 1_000} s`);
  const storage = await openStorage(target, { seed, quietMs: QUIET_MS, ...ROUND });
  progress(quietText(storage.byItself));
  do
    for (const door of doors)
      for (const shape of door.shapes) {
        const one = await storage.shapeOf(door, shape);
        progress(`${door.name}: ${shape.what}: ${statusText(one.statuses)}; ratio ${ratioText(one)}`);
      }
  while (performance.now() < until);
  return storage.end();
};

/** Prints what was kept of every shape, and ends with a verdict for every door. */
export const fuzzStorage = async (target: Target, settings: StorageFuzz): Promise<readonly Verdict[]> => {
  const { links } = target.run().demo as unknown as Pick<Demo, "links">;
  const [link] = links;
  if (link === undefined) throw new Error("the demonstration was not seeded here: tributary seed --demo");
  const world = await openWorld(target, { clientId: link.client_id, code: link.code });
  const doors = chosen(doorsOf(world), settings.door);
  const before = processesOf(target);
  const all = await measured(target, doors, settings).finally(world.close);
  print(storageTable(all));
  const after = processesOf(target);
  const gone = before.filter((name) => !after.includes(name));
  const faults = faultsOf(all);
  const of = (name: string): readonly Measurement[] => all.filter(({ door }) => door === name);
  return [
    ...doors.map(({ name }) => verdictOf(name, of(name))),
    { says: "no answer is a fault of ours", isKept: faults.length === 0, figure: faults.join("; ") || "none" },
    { says: "no process has ended", isKept: gone.length === 0, figure: gone.join(", ") || `${before.length} run on` },
  ];
};
