// Probes that events are processed: a group that does not move while records wait is found whatever
// its cause, also when every store answers.
import type { Pool } from "pg";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import type { AnyReader } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { needs, type Store } from "../../log/dead-letters/letter-depth.ts";
import { archiving } from "../../log/groups/archive-group.ts";
import { openHolds } from "../../log/groups/group-holds.ts";
import { hostsNow, recordedHostings } from "../../log/groups/hosts.ts";
import type { ProbeName } from "./incident.ts";
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
  /** The stores without which the group stands, beside the log and Postgres, which all need. */
  readonly needs: readonly ProbeName[];
}
export interface StandingPorts {
  readonly places: () => Promise<readonly WaitingPlace[]>;
  /** The groups that an operator holds. */
  readonly held: () => Promise<ReadonlySet<string>>;
  /** The other probes that fail: each reports what stands because of it. */
  readonly failing: () => Promise<ReadonlySet<string>>;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

const OF_ALL: readonly ProbeName[] = ["event_log", "relational_store"];

/**
 * Rejects while a group stands that is not held and needs no store that fails. If that cannot be
 * read, or a failing store explains what stands, it says what it said before: an open incident
 * stays open, and none begins.
 */
export const openStandingGroups = ({ places, held, failing, now = () => performance.now() }: StandingPorts) => {
  let waiting: ReadonlyMap<string, number> = new Map();
  const standing = async (alerted: string | null): Promise<string | null> => {
    const at = now();
    const since = new Map<string, number>();
    const stands = new Map<string, { readonly ms: number; readonly lag: number; readonly needs: readonly string[] }>();
    for (const { group, topic, partition, committed, lag, needs } of await places()) {
      if (lag === 0) continue;
      const place = `${group}/${topic}/${partition}@${committed}`;
      const ms = at - (waiting.get(place) ?? at);
      since.set(place, at - ms);
      if (ms <= (group === archiving.group ? ARCHIVE_STANDS_MS : STANDS_MS)) continue;
      const known = stands.get(group) ?? { ms: 0, lag: 0 };
      stands.set(group, { ms: Math.max(known.ms, ms), lag: known.lag + lag, needs });
    }
    waiting = since;
    const [kept, down] = await Promise.all([held(), failing()]);
    const isExplained = (needs: readonly string[]): boolean => [...OF_ALL, ...needs].some((name) => down.has(name));
    const free = [...stands].filter(([group]) => !kept.has(group));
    const [first, ...others] = free.filter(([, { needs }]) => !isExplained(needs));
    if (first === undefined) return free.length > 0 ? alerted : null;
    const [group, { ms, lag }] = first;
    const more = others.length === 0 ? "" : `, and so do ${others.map(([name]) => name).join(", ")}`;
    return `${group} has not moved for ${Math.round(ms / 1_000)} s while ${lag} records wait${more}`;
  };
  const look: Look = async (alerted) => {
    const said = await standing(alerted).catch(() => alerted);
    if (said !== null) throw new Error(said);
  };
  return look;
};

const probeOf: Readonly<Record<Store, ProbeName>> = { analytics: "analytics_store", cache: "cache_store" };
const needsOf = (group: string, nodes: readonly AnyReader[]): readonly ProbeName[] =>
  group === archiving.group ? ["object_store"] : [...new Set(nodes.flatMap(needs).map((store) => probeOf[store]))];

/** Reads what the probe asks from the log and from Postgres. */
export const standingPorts = (pool: Pool, ask: <T>(question: (admin: Admin) => Promise<T>) => Promise<T>) => {
  const recorded = recordedHostings(pool);
  return {
    places: () =>
      ask(async (admin): Promise<readonly WaitingPlace[]> => {
        const hosts = await hostsNow({ topology: pipeline, recorded, describeGroups: admin.describeGroups });
        const readers = readersOf(pipeline);
        const groups = new Map(
          readers
            .map(hosts)
            .filter(({ isRecorded }) => isRecorded)
            .map((host) => [host.group, host]),
        );
        const found = [...groups.values()].map(async ({ group, topic, nodes }): Promise<readonly WaitingPlace[]> => {
          const hosted = needsOf(
            group,
            readers.filter(({ name }) => nodes.includes(name)),
          );
          return (await admin.lag(group, [topic])).map((lag) => ({ ...lag, needs: hosted }));
        });
        return (await Promise.all(found)).flat();
      }),
    held: async () => new Set((await openHolds(pool).all()).map(({ group }) => group)),
    failing: async () =>
      new Set((await listProbes(pool)).flatMap(({ name, state }) => (state === "healthy" ? [] : name))),
  } satisfies StandingPorts;
};
