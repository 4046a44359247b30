// What keeps a stack from starting, each with its cure. It is asked before the first process is
// started, and all of it is said at once.
import type { Layout } from "../stack-layout.ts";
import { appFaults } from "./app-faults.ts";
import { newerData } from "./data-versions.ts";
import { certificateFault } from "./machine-faults.ts";
import { outsideFaults } from "./outside-faults.ts";

const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A failed check is a fault too: it says what is missing. */
const faultsOf = async (check: () => readonly string[] | Promise<readonly string[]>): Promise<readonly string[]> => {
  try {
    return await check();
  } catch (error) {
    return [sentence(error)];
  }
};

/** Brings the programs of the servers onto this machine, and starts none of them. */
export const startFaults = async (layout: Layout): Promise<readonly string[]> => {
  const { own, place } = layout;
  const checks = [
    () => certificateFault(layout),
    () => appFaults(layout),
    () => outsideFaults(layout),
    ...own.map((service) => () => service.faults?.(place) ?? []),
    // Servers that share their jars fetch them once: one after the other.
    ...own.map((service) => async () => {
      await service.install(place);
      return [];
    }),
    () => newerData(layout),
  ];
  const found: string[] = [];
  for (const check of checks) found.push(...(await faultsOf(check)));
  return [...new Set(found)];
};

/** @throws Error that names every fault, if there is one. */
export const refuseStart = (faults: readonly string[]): void => {
  if (faults.length === 0) return;
  const [only, ...others] = faults;
  throw new Error(
    others.length === 0
      ? `Nothing was started: ${only}`
      : `Nothing was started, for ${faults.length} reasons:\n${faults.map((fault) => `- ${fault}`).join("\n")}`,
  );
};
