// The processes of one stack by name: they are started, found, stopped and started again, in the
// order of their first start.
import type { ProcessStatus } from "../runtime/stack-control.ts";
import { type Charge, type KeeperEvent, type KeptProcess, keep } from "./keep-running.ts";
import type { Roster } from "./roster.ts";

export interface CrewSettings {
  readonly roster: Roster;
  readonly tell: (event: KeeperEvent) => void;
  /** Called when a process has started or ended. */
  readonly changed: () => void;
  /** Cancels a start under way. */
  readonly signal?: AbortSignal | undefined;
}

export interface Crew {
  readonly find: (name: string) => KeptProcess | undefined;
  /** Throws one sentence that lists the known names. */
  readonly known: (name: string) => KeptProcess;
  /** True for a process that runs or is being started. */
  readonly has: (name: string) => boolean;
  readonly add: (charge: Charge) => Promise<void>;
  /** Starts a process that was stopped before. */
  readonly startAgain: (name: string) => Promise<void>;
  readonly stop: (name: string) => Promise<void>;
  readonly status: () => readonly ProcessStatus[];
  /**
   * Stops everything, including processes that are being started; throws the first problem at the
   * end.
   */
  readonly stopAll: () => Promise<void>;
}

export const openCrew = ({ roster, tell, changed, signal }: CrewSettings): Crew => {
  const children: KeptProcess[] = [];
  // Processes in the order of starting. A process that is stopped and started again keeps its
  // place.
  const charges = new Map<string, Charge>();
  const starting = new Map<string, Promise<void>>();
  const leaving = new AbortController();
  const given = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal]);

  const find = (name: string): KeptProcess | undefined => children.find((child) => child.name === name);
  const known = (name: string): KeptProcess => find(name) ?? unknownName(name, children);
  const start = async (charge: Charge): Promise<void> => {
    given.throwIfAborted();
    charges.set(charge.name, charge);
    children.push(await keep({ ...charge, signal: given }, roster, tell, changed));
    sortByName(children, [...charges.keys()]);
    // `keep` reports the new process before it can be found here.
    changed();
  };
  const add = (charge: Charge): Promise<void> => {
    const work = start(charge).finally(() => starting.delete(charge.name));
    starting.set(charge.name, work);
    return work;
  };
  return {
    find,
    known,
    add,
    has: (name) => find(name) !== undefined || starting.has(name),
    startAgain: async (name) => {
      const charge = charges.get(name);
      if (charge === undefined) known(name);
      else if (find(name) === undefined) await (starting.get(name) ?? add(charge));
    },
    stop: async (name) => {
      const child = known(name);
      await child.stop();
      children.splice(children.indexOf(child), 1);
      changed();
    },
    status: () =>
      [...charges.keys()].map((name) => {
        const stopped = starting.has(name) ? "starting" : "stopped";
        return { name, pid: find(name)?.pid() ?? null, state: find(name)?.state() ?? stopped };
      }),
    stopAll: async () => {
      // A process that is being started would otherwise come up when everything else has gone.
      leaving.abort(new Error("the stack is being stopped"));
      await Promise.allSettled(starting.values());
      await stopInReverse(children);
    },
  };
};

const sortByName = (children: KeptProcess[], names: readonly string[]): void =>
  void children.sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name));

const unknownName = (name: string, children: readonly KeptProcess[]): never => {
  const names = children.map((one) => one.name).join(", ");
  throw new Error(`Nothing of the name ${name} runs in this stack; there are ${names}.`);
};

/**
 * Stops in reverse order of starting, one by one: an app must be able to flush into stores that
 * still run, and the registry needs its Kafka. A process that cannot be stopped does not leave the
 * others running.
 */
const stopInReverse = async (children: readonly KeptProcess[]): Promise<void> => {
  const problems: unknown[] = [];
  for (const child of children.toReversed()) await child.stop().catch((problem: unknown) => problems.push(problem));
  if (problems.length > 0) throw problems[0];
};
