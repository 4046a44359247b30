// Probes that events are processed: a group that does not move while records wait is found whatever
// its cause, also when every store answers.
import type { Pool } from "pg";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { readersOf } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { archiving } from "../../log/groups/archive-group.ts";
import { openHolds } from "../../log/groups/group-holds.ts";
import { hostsNow, recordedHostings } from "../../log/groups/hosts.ts";
import { listProbes } from "./probe-states.ts";
import type { Look } from "./probes.ts";

/** A group that commits nothing for longer, though records wait, stands. */
const STANDS_MS = 90_000;
/** The archive commits a file at a time, and a file may wait for five minutes to be full. */
const ARCHIVE_STANDS_MS = 600_000;

/** What waits for a group in one partition. */
export interface WaitingPlace {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly committed: number | null;
  readonly lag: number;
}
export interface StandingPorts {
  readonly places: () => Promise<readonly WaitingPlace[]>;
  /** The groups that an operator holds. */
  readonly held: () => Promise<ReadonlySet<string>>;
  /** True while a store fails: its own probe reports it, and groups stand because of it. */
  readonly isExplained: () => Promise<boolean>;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

/**
 * Rejects while a group stands that is not held. If that cannot be read, or a store fails, it says
 * what it said before: an open incident stays open, and none begins.
 */
export const openStandingGroups = ({ places, held, isExplained, now = () => performance.now() }: StandingPorts) => {
  let waiting: ReadonlyMap<string, number> = new Map();
  const standing = async (): Promise<string | null> => {
    const at = now();
    const since = new Map<string, number>();
    const stands = new Map<string, { readonly ms: number; readonly lag: number }>();
    for (const { group, topic, partition, committed, lag } of await places()) {
      if (lag === 0) continue;
      const place = `${group}/${topic}/${partition}@${committed}`;
      const ms = at - (waiting.get(place) ?? at);
      since.set(place, at - ms);
      if (ms <= (group === archiving.group ? ARCHIVE_STANDS_MS : STANDS_MS)) continue;
      const known = stands.get(group) ?? { ms: 0, lag: 0 };
      stands.set(group, { ms: Math.max(known.ms, ms), lag: known.lag + lag });
    }
    waiting = since;
    const kept = await held();
    const [first, ...others] = [...stands].filter(([group]) => !kept.has(group));
    if (first === undefined) return null;
    const [group, { ms, lag }] = first;
    const more = others.length === 0 ? "" : `, and so do ${others.map(([name]) => name).join(", ")}`;
    return `${group} has not moved for ${Math.round(ms / 1_000)} s while ${lag} records wait${more}`;
  };
  const look: Look = async (alerted) => {
    const said = await Promise.all([standing(), isExplained()]).then(
      ([found, explained]) => (explained ? alerted : found),
      () => alerted,
    );
    if (said !== null) throw new Error(said);
  };
  return look;
};

/** Reads what the probe asks from the log and from Postgres. */
export const standingPorts = (pool: Pool, ask: <T>(question: (admin: Admin) => Promise<T>) => Promise<T>) => {
  const recorded = recordedHostings(pool);
  return {
    places: () =>
      ask(async (admin): Promise<readonly WaitingPlace[]> => {
        const hosts = await hostsNow({ topology: pipeline, recorded, describeGroups: admin.describeGroups });
        const groups = new Map(
          readersOf(pipeline)
            .map(hosts)
            .filter(({ isRecorded }) => isRecorded)
            .map(({ group, topic }) => [group, topic]),
        );
        const lags = [...groups].map(([group, topic]) => admin.lag(group, [topic]));
        return (await Promise.all(lags)).flat();
      }),
    held: async () => new Set((await openHolds(pool).all()).map(({ group }) => group)),
    isExplained: async () =>
      (await listProbes(pool)).some(({ name, state }) => name !== "event_processing" && state !== "healthy"),
  } satisfies StandingPorts;
};
