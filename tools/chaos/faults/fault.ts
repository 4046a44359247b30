// The type of a fault: it does its damage under load, heals it, and proves that it took effect.

import type { Finding } from "../laws/law.ts";
import type { Generator } from "../load/generator.ts";
import type { Load } from "../load/load.ts";
import type { Target } from "../target.ts";

/** A cycle without a proven fault is void. */
export interface Proof {
  readonly took: boolean;
  /** One line, for example process numbers, swallowed bytes or deleted rows. */
  readonly what: string;
}
export interface Scene {
  readonly target: Target;
  readonly random: () => number;
  readonly load: Load;
  readonly generator: Generator;
  /** Adds a finding of the fault to a law. */
  readonly find: (law: string, finding: Finding) => void;
  /** The fault rewinds this group on purpose, so the watcher must accept it. */
  readonly forgive: (group: string) => void;
  /** Resolves when every group has read everything that the log has now. */
  readonly quiet: () => Promise<void>;
  readonly tell: (text: string) => void;
}
export interface Fault {
  readonly name: string;
  /** The number in docs/design/laws.md, "Faults". */
  readonly id: string;
  /**
   * proxies: every service needs a proxy in front; folders: small file systems must be mountable;
   * cluster: the log must have three brokers.
   */
  readonly needs?: "proxies" | "folders" | "cluster";
  /** The service whose proxy the fault uses; each proxy serves one fault at a time. */
  readonly before?: string;
  /**
   * The fault stops the load and waits for quiescence before and after. A cycle has at most one
   * such fault, at its end.
   */
  readonly isAlone?: boolean;
  /** How often the fault is drawn; 1 by default. */
  readonly weight?: number;
  /** Resolves when the damage is healed; processes may still be catching up. */
  readonly run: (scene: Scene) => Promise<Proof>;
}

export { setTimeout as pause } from "node:timers/promises";
export const between = (random: () => number, low: number, high: number): number =>
  Math.floor(low + random() * (high - low));
export const pick = <T>(random: () => number, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
