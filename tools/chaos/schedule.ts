// Draws cycles from a seed: the faults, their order and the gaps. The same seed draws the same
// cycles.

import { randomFrom } from "../../infra/runtime/random.ts";
import { brokerFaults } from "./faults/brokers.ts";
import { dataFaults } from "./faults/data.ts";
import { diskFaults } from "./faults/disks.ts";
import { memberFaults } from "./faults/failpoints.ts";
import type { Fault } from "./faults/fault.ts";
import { networkFaults } from "./faults/network.ts";
import { processFaults } from "./faults/processes.ts";
import { timeFaults } from "./faults/time.ts";
import type { LoadShape } from "./load/load.ts";

export const faults: readonly Fault[] = [
  ...processFaults,
  ...memberFaults,
  ...networkFaults,
  ...dataFaults,
  ...diskFaults,
  ...timeFaults,
  ...brokerFaults,
];

export interface StageMeans {
  readonly proxies: boolean;
  readonly folders: boolean;
  /** No other sender uses this installation, so two moments of it can be compared. */
  readonly isOurs: boolean;
  /** The log has three brokers, and each group two workers. */
  readonly isCluster?: boolean;
}
/** Why a fault cannot run here, or null. */
export const obstacleOf = (fault: Fault, available: StageMeans): string | null => {
  if (fault.needs === "proxies" && !available.proxies) return "no proxy stands before the services of this stack";
  if (fault.needs === "folders" && !available.folders) return "a file system of limited size cannot be mounted here";
  if (fault.needs === "cluster" && available.isCluster !== true) return "the log is one broker";
  if (fault.isAlone === true && !available.isOurs)
    return "others send to this stack, so two moments of it cannot be compared";
  return null;
};

/** The faults of a cycle, the gaps between them, and its random numbers. */
export interface Plan {
  readonly faults: readonly Fault[];
  readonly gapsMs: readonly number[];
  readonly warmUpMs: number;
  readonly random: () => number;
  readonly load?: LoadShape;
}

const draw = (random: () => number, from: readonly Fault[]): Fault => {
  const total = from.reduce((sum, { weight = 1 }) => sum + weight, 0);
  let left = random() * total;
  for (const fault of from) {
    left -= fault.weight ?? 1;
    if (left < 0) return fault;
  }
  return from.at(-1)!;
};

/**
 * Cycle `n` of a seed does not depend on earlier cycles. `only` has names, prefixes of names, or
 * ids.
 */
export const planOf = (seed: number, n: number, available: StageMeans, only: readonly string[] = []): Plan => {
  const random = randomFrom(Math.imul(seed, 0x9e3779b1) + n * 7_919);
  const chosen = faults.filter(
    (fault) =>
      obstacleOf(fault, available) === null &&
      (only.length === 0 || only.some((name) => fault.name.startsWith(name) || fault.id === name)),
  );
  if (chosen.length === 0)
    throw new Error(`no fault of this name can be made here; there are ${faults.map(({ name }) => name).join(", ")}`);
  const together = chosen.filter(({ isAlone }) => isAlone !== true);
  const alone = chosen.filter(({ isAlone }) => isAlone === true);
  const drawn = new Set<Fault>();
  const many = together.length === 0 ? 0 : 1 + Math.floor(random() * 3);
  for (let tries = 0; drawn.size < Math.min(many, together.length) && tries < 50; tries += 1) {
    const next = draw(random, together);
    if (next.before === undefined || ![...drawn].some(({ before }) => before === next.before)) drawn.add(next);
  }
  if (alone.length > 0 && (together.length === 0 || random() < 0.3)) drawn.add(draw(random, alone));
  const list = [...drawn];
  return {
    faults: list,
    gapsMs: list.map(() => Math.floor(200 + random() * 1_800)),
    warmUpMs: Math.floor(800 + random() * 1_500),
    random,
  };
};

/** A chosen plan instead of a drawn one. Throws if a name is unknown. */
export const planFor = (names: readonly string[], seed: number): Plan => {
  const list = names.map((name) => {
    const found = faults.find((fault) => fault.name === name);
    if (found === undefined) throw new Error(`there is no fault ${name}`);
    return found;
  });
  return { faults: list, gapsMs: list.map(() => 500), warmUpMs: 1_000, random: randomFrom(seed) };
};
