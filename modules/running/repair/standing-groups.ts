// Probes that events are processed: a group that does not move while records wait is found whatever
// its cause, also when every store answers.
import type { Pool } from "pg";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import type { AnyReader } from "../../../stream/flow.ts";
import { readersOf } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { needs, type Store } from "../../log/dead-letters/letter-depth.ts";
import { archiving } from "../../log/groups/archive-group.ts";
import { openHolds } from "../../log/groups/group-holds.ts";
import { hostsNow, recordedHostings } from "../../log/groups/hosts.ts";
import { stopsGroups } from "./findings.ts";
import type { ProbeName } from "./incident.ts";
import { listProbes } from "./probe-states.ts";
import type { Look } from "./probes.ts";

/** A group that commits nothing for longer, though records wait, stands. */
const STANDS_MS = 90_000;
/** The archive commits a file at a time, and a file may wait for five minutes to be full. */
const ARCHIVE_STANDS_MS = 600_000;
/** Shorter than a probe's 10 s less the 5 s of the log, so that a slow store hides no group. */
const MARKS_MS = 3_000;

/** What waits for a group in one partition. */
export interface WaitingPlace {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly committed: number | null;
  readonly lag: number;
  /** The stores without which the group stands, beside the log and Postgres, which all need. */
  readonly needs: readonly ProbeName[];
  /**
   * The offset up to which each stage of the group remembers the partition. While memory is rebuilt
   * that moves, and the commit does not.
   */
  readonly remembered: readonly (number | null)[];
}
export interface StandingPorts {
  readonly places: () => Promise<readonly WaitingPlace[]>;
  /** The groups that an operator holds. */
  readonly held: () => Promise<ReadonlySet<string>>;
  /** The other probes that fail, and so report what stands because of it. */
  readonly failing: () => Promise<ReadonlySet<string>>;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

const OF_ALL: readonly ProbeName[] = ["event_log", "relational_store"];

interface StandingGroup {
  readonly ms: number;
  readonly lag: number;
  readonly isExplained: boolean;
}

/**
 * Rejects while a group stands that is not held and needs no store that fails. If that cannot be
 * read, or a failing store explains what stands, it says what it said before: an open incident
 * stays open, and none begins. Only time in which a group was free to move counts.
 */
export const openStandingGroups = ({ places, held, failing, now = () => performance.now() }: StandingPorts) => {
  /** For how long each place has stood; undefined before the first look. */
  let stood: ReadonlyMap<string, number> | undefined;
  let lookedAt = now();

  const standing = async (alerted: string | null): Promise<string | null> => {
    const at = now();
    // A look that failed counts too: the time before it was not seen.
    const passed = at - lookedAt;
    lookedAt = at;
    const [waiting, kept, down] = await Promise.all([places(), held(), failing()]);
    const found = new Map<string, number>();
    const stands = new Map<string, StandingGroup>();
    for (const { group, topic, partition, committed, lag, needs, remembered } of waiting) {
      if (lag === 0) continue;
      const limit = group === archiving.group ? ARCHIVE_STANDS_MS : STANDS_MS;
      const isOpen = alerted?.includes(group) === true;
      const isExplained = [...OF_ALL, ...needs].some((name) => down.has(name));
      const place = `${group}/${topic}/${partition}@${committed}/${remembered}`;
      // The keeper that opened the incident had seen it stand, and another one goes on with it.
      const before = stood === undefined && isOpen ? limit + 1 : stood?.get(place);
      const isExcused = kept.has(group) || (isExplained && !isOpen);
      const ms = before === undefined || isExcused ? 0 : before + (stood === undefined ? 0 : passed);
      found.set(place, ms);
      if (ms <= limit) continue;
      const known = stands.get(group) ?? { ms: 0, lag: 0 };
      stands.set(group, { ms: Math.max(known.ms, ms), lag: known.lag + lag, isExplained });
    }
    stood = found;
    const [first, ...others] = [...stands].filter(([, { isExplained }]) => !isExplained);
    if (first === undefined) return stands.size > 0 ? alerted : null;
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

/** Reads how far a stage remembers the partitions of a topic. */
type MarksRead = (stage: string, topic: string) => Promise<ReadonlyMap<number, number>>;
export interface StandingSources {
  readonly pool: Pool;
  readonly ask: <T>(question: (admin: Pick<Admin, "lag" | "describeGroups">) => Promise<T>) => Promise<T>;
  /** By the driver of a memory. */
  readonly marks: Readonly<Record<"fast" | "durable", MarksRead>>;
}

/**
 * While a store does not answer, the marks are those of before: a group that needs it is explained,
 * and no other one seems to move.
 */
const lastMarks = (read: MarksRead): MarksRead => {
  const last = new Map<string, ReadonlyMap<number, number>>();
  return async (stage, topic) => {
    const place = `${stage} ${topic}`;
    const marks = await within(MARKS_MS, read(stage, topic), "no marks").catch(() => last.get(place) ?? new Map());
    last.set(place, marks);
    return marks;
  };
};

/** Reads what the probe asks from the log and from the stores. */
export const standingPorts = ({ pool, ask, marks }: StandingSources) => {
  const recorded = recordedHostings(pool);
  const readers = readersOf(pipeline);
  const marksOf = { fast: lastMarks(marks.fast), durable: lastMarks(marks.durable) };

  const groupLags = () =>
    ask(async (admin) => {
      const hosts = await hostsNow({ topology: pipeline, recorded, describeGroups: admin.describeGroups });
      const recordedHosts = readers.map(hosts).filter(({ isRecorded }) => isRecorded);
      const groups = new Map(recordedHosts.map((host) => [host.group, host]));
      const lags = [...groups.values()].map(async ({ group, topic, nodes }) => ({
        ...{ group, topic, nodes: readers.filter(({ name }) => nodes.includes(name)) },
        waiting: (await admin.lag(group, [topic])).filter(({ lag }) => lag > 0),
      }));
      return Promise.all(lags);
    });
  return {
    places: async (): Promise<readonly WaitingPlace[]> => {
      const places = (await groupLags()).map(async ({ group, topic, nodes, waiting }) => {
        const stages = nodes.flatMap((node) =>
          waiting.length > 0 && node.is === "stage" && node.memory !== undefined
            ? marksOf[node.memory.driver](node.name, topic)
            : [],
        );
        const remembered = await Promise.all(stages);
        return waiting.map((lag) => ({
          ...lag,
          needs: needsOf(group, nodes),
          remembered: remembered.map((known) => known.get(lag.partition) ?? null),
        }));
      });
      return (await Promise.all(places)).flat();
    },
    // A hold stays until its group has caught up, but its workers read from its release on.
    held: async () =>
      new Set((await openHolds(pool).all()).flatMap(({ group, releasedAt }) => (releasedAt === null ? group : []))),
    failing: async () =>
      new Set(
        (await listProbes(pool)).flatMap(({ name, state, last_error }) =>
          state === "healthy" || !stopsGroups(last_error) ? [] : name,
        ),
      ),
  } satisfies StandingPorts;
};
