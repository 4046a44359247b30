// The hold that keeps a group's workers out while an operation moves the group.
import type { UnixMs } from "../../../stream/flow.ts";
import type { RewindPlan } from "./rewind-plan.ts";

/**
 * Why a group is held, and how far the operation that holds it is. It outlives the process that
 * wrote it.
 */
export interface Hold {
  readonly group: string;
  readonly operation: string;
  readonly kind: "rewind" | "relearn" | "set_aside";
  readonly actor: string;
  readonly reason: string | null;
  readonly since: UnixMs;
  /**
   * For a rewind: stored once all workers have left the group. The same command, run again, uses
   * these offsets and computes no others. For a relearn or a set-aside: stored from the start,
   * without partitions; its `to` names the request that the same command must repeat.
   */
  readonly plan: RewindPlan | null;
  /** When workers were allowed to join again; the hold stays until the group has caught up. */
  readonly releasedAt: UnixMs | null;
}

/**
 * Where holds are stored (modules/log/groups/group-holds.ts). Every change names the operation, and
 * throws when its hold was released.
 */
export interface Holds {
  /** Runs `work` while no other command works on the group; throws HeldElsewhere when one does. */
  readonly alone: <T>(group: string, work: () => Promise<T>) => Promise<T>;
  readonly of: (group: string) => Promise<Hold | null>;
  readonly all: () => Promise<readonly Hold[]>;
  readonly take: (
    hold: Pick<Hold, "group" | "operation" | "kind" | "actor" | "reason"> & Partial<Pick<Hold, "plan">>,
  ) => Promise<void>;
  readonly keepPlan: (operation: string, plan: RewindPlan) => Promise<void>;
  readonly release: (operation: string) => Promise<void>;
  /** Deletes the hold. */
  readonly end: (operation: string) => Promise<void>;
}
