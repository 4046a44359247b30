// What a fault is: it does its damage under load, heals it, and proves that it took effect.

import type { Finding } from "../laws/law.ts";
import type { Generator } from "../load/generator.ts";
import type { Load } from "../load/load.ts";
import type { Target } from "../target.ts";

/** A cycle of which a fault has no proof is void. */
export interface Proof {
  readonly took: boolean;
  /** One line: process numbers, bytes swallowed, rows deleted. */
  readonly what: string;
}
export interface Scene {
  readonly target: Target;
  readonly random: () => number;
  readonly load: Load;
  readonly generator: Generator;
  /** What a fault has found out for a law by itself. */
  readonly find: (law: string, finding: Finding) => void;
  /** The fault rewinds this group on purpose. */
  readonly forgive: (group: string) => void;
  /** Until every group has read what lies in the log now. */
  readonly quiet: () => Promise<void>;
  readonly tell: (text: string) => void;
}
export interface Fault {
  readonly name: string;
  /** Its number in the list of faults of docs/design/laws.md, "Faults". */
  readonly id: string;
  /**
   * proxies: only where every service has one before it; folders: only where a small file system
   * can be mounted; cluster: only where the log is three brokers.
   */
  readonly needs?: "proxies" | "folders" | "cluster";
  /** The proxy whose weather it makes: one at a time. */
  readonly before?: string;
  /**
   * It stops the load and waits for quiescence before and after; at most one of this kind in a
   * cycle, and last.
   */
  readonly isAlone?: boolean;
  /** How often it is drawn; 1 by default. */
  readonly weight?: number;
  /** Resolves when its damage is healed: processes may still be catching up. */
  readonly run: (scene: Scene) => Promise<Proof>;
}

export { setTimeout as pause } from "node:timers/promises";
export const between = (random: () => number, low: number, high: number): number =>
  Math.floor(low + random() * (high - low));
export const pick = <T>(random: () => number, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
