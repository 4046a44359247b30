// GET /health: the report of the specification. Its probes run at most every two seconds and time
// out early.

import type { Admin } from "../../../infra/kafka/kafka.ts";
import { sharedAnswer } from "../../../infra/runtime/timing/shared-answer.ts";
import { waitingEvents } from "../../../modules/figures/receipts/waiting-events.ts";
import type { PathName, PathState } from "../../../modules/intake/path/path.ts";
import type { PullHealth } from "../../../modules/intake/pulls/pull-health.ts";
import {
  type Counts,
  type DepthAnswer,
  lastKnown,
  sumOf,
  unreadLetters,
  waitingForStores,
} from "../../../modules/log/dead-letters/letter-depth.ts";
import { archiving } from "../../../modules/log/groups/archive-group.ts";
import type { Hosts } from "../../../modules/log/groups/hosts.ts";
import { archiveBehind } from "../../../sinks/archive/check.ts";

/**
 * The probes of the report; each rejects when its subject is not well. A probe that hangs fails
 * after PROBE_MS.
 */
export interface HealthPorts {
  readonly version: string;
  /** Unix milliseconds of the start of this process. */
  readonly startedAt: number;
  readonly analytics: () => Promise<void>;
  readonly cache: () => Promise<void>;
  readonly relational: () => Promise<void>;
  /** Produces a record to the probe topic and waits for its acknowledgement. */
  readonly backbone: () => Promise<void>;
  /** Puts an object into object storage. */
  readonly objects: () => Promise<void>;
  /** Events that the last resort holds for all edges, by kind of dead letter. */
  readonly lastResort: () => Promise<Readonly<Record<string, number>>>;
  /** Open dead letters in the index, by kind; `fewStrangers` of them change no status. */
  readonly letters: () => Promise<Counts>;
  readonly path: () => PathState;
  readonly admin: () => Promise<Admin>;
  /** The current hosts of each stage and sink. */
  readonly hosts: () => Promise<Hosts>;
  readonly pulls: () => Promise<PullHealth>;
}

type Store = "ok" | "down";
export interface HealthReport {
  readonly status: "ok" | "degraded" | "down";
  readonly version: string;
  readonly uptime_sec: number;
  readonly analytics_store: Store;
  readonly cache_store: Store;
  readonly relational_store: Store;
  readonly backbone: Store;
  /** Null: the log cannot be asked, so the number is unknown. */
  readonly buffer_events: number | null;
  readonly dlq_depth: { readonly clicks: number | null; readonly pixel: number | null; readonly s2s: number | null };
  /**
   * True when a number could not be read, so that the last one stands. A null number was never
   * known.
   */
  readonly dlq_depth_stale: boolean;
  /**
   * The oldest last pull among the active sources; null: no source is active, or one was never
   * pulled.
   */
  readonly last_pull_at: string | null;
  /** The sums over the last pull of each source. */
  readonly last_pull_stats: PullHealth["stats"];
  readonly failover: {
    readonly active: boolean;
    readonly path: PathName;
    /** Null here and below: the spool, or object storage, was not read yet. */
    readonly spooled_events: number | null;
    readonly last_resort_events: number | null;
    /** The age of the oldest event that waits here for the log; 0: none waits. */
    readonly oldest_sec: number | null;
  };
  readonly recovery: {
    readonly health_check: {
      readonly analytics_ok: boolean;
      readonly wal_ok: boolean;
      readonly relational_ok: boolean;
      readonly cache_ok: boolean;
    };
  };
  readonly time_zone_data: string;
}

const CACHED_MS = 2_000;
/** A put costs two syncs of a disk, or money. */
const OBJECTS_CACHED_MS = 10_000;
const PROBE_MS = 2_000;

/**
 * Returns a function that answers the newest report; concurrent callers share one round of probes.
 */
export const healthOf = (ports: HealthPorts): (() => Promise<HealthReport>) => {
  const objects = sharedAnswer(OBJECTS_CACHED_MS, () => stateOf(ports.objects));
  const lastResort = sharedAnswer(
    OBJECTS_CACHED_MS,
    lastKnown(() => within(ports.lastResort)),
  );
  const index = lastKnown(() => within(ports.letters));
  const unread = lastKnown(() => within(async () => unreadLetters(await ports.admin())));
  const letters = () => Promise.all([lastResort(), index(), unread()]);
  const pulls = keeping(nothingPulled, () => within(ports.pulls));
  return sharedAnswer(CACHED_MS, () => report(ports, { objects, letters, pulls }));
};

/** Answers that are refreshed less often than the rest, or that keep their last value. */
interface SlowAnswers {
  readonly objects: () => Promise<Store>;
  readonly letters: () => Promise<readonly (DepthAnswer | null)[]>;
  readonly pulls: () => Promise<PullHealth>;
}

/** Keeps the last answer while there is no new one: the probe of the store reports its failure. */
const keeping = <T>(first: T, ask: () => Promise<T>): (() => Promise<T>) => {
  let known = first;
  return async () => {
    known = await ask().catch(() => known);
    return known;
  };
};
const nothingPulled: PullHealth = {
  lastPullAt: null,
  isLate: false,
  stats: { rows: 0, new: 0, duplicate: 0, errors: 0, window: null },
};

const report = async (ports: HealthPorts, asked: SlowAnswers): Promise<HealthReport> => {
  const [objects, archived, open, pulls, analytics, cache, relational, backbone, waiting] = await Promise.all([
    asked.objects(),
    within(async () => archiveBehind(await ports.admin(), archiving)).catch(() => null),
    asked.letters(),
    asked.pulls(),
    stateOf(ports.analytics),
    stateOf(ports.cache),
    stateOf(ports.relational),
    stateOf(ports.backbone),
    within(() => waitingEvents(ports)).catch(() => null),
  ]);
  const path = ports.path();
  const forStores = await lettersForStores(ports, { analytics: analytics === "down", cache: cache === "down" });
  const spooled = path.byKind === null ? null : { counts: path.byKind, isStale: false };
  const letters = sumOf([...open, spooled, forStores]);
  const found: Omit<HealthReport, "status"> = {
    version: ports.version,
    uptime_sec: Math.floor((Date.now() - ports.startedAt) / 1_000),
    analytics_store: analytics,
    cache_store: cache,
    relational_store: relational,
    backbone,
    buffer_events: waiting,
    dlq_depth: letters?.depth ?? { clicks: null, pixel: null, s2s: null },
    dlq_depth_stale: letters?.isStale ?? true,
    last_pull_at: pulls.lastPullAt === null ? null : new Date(pulls.lastPullAt).toISOString(),
    last_pull_stats: pulls.stats,
    failover: failoverOf(path),
    recovery: {
      health_check: {
        analytics_ok: analytics === "ok",
        // The write-ahead log is the Kafka topic and its archive in object storage, which may be
        // five minutes behind.
        wal_ok: backbone === "ok" && objects === "ok" && archived === 0,
        relational_ok: relational === "ok",
        cache_ok: cache === "ok",
      },
    },
    time_zone_data: process.versions.tz ?? "unknown",
  };
  return { status: statusOf(found, pulls.isLate, letters?.fewStrangers ?? 0), ...found };
};

/** Letters that wait for a store that is down; stale while the log cannot be asked. */
const lettersForStores = (
  ports: HealthPorts,
  isDown: { readonly analytics: boolean; readonly cache: boolean },
): Promise<DepthAnswer> =>
  within(() => waitingForStores(ports, isDown, Date.now())).then(
    (counts) => ({ counts, isStale: false }),
    () => ({ counts: {}, isStale: true }),
  );

const failoverOf = (path: PathState): HealthReport["failover"] => ({
  active: path.active,
  path: path.path,
  spooled_events: path.spooledEvents,
  last_resort_events: path.lastResortEvents,
  oldest_sec: path.oldestSec,
});

/**
 * Down when a store or the log is down; ok when every flag and counter is well. An unknown counter
 * is not well. A few letters of strangers are: anyone could have health say degraded by one request
 * to the pixel.
 */
const statusOf = (
  found: Omit<HealthReport, "status">,
  isPullLate: boolean,
  fewStrangers: number,
): HealthReport["status"] => {
  const { analytics_store: analytics, cache_store: cache, relational_store: relational, backbone } = found;
  if ([analytics, cache, relational, backbone].includes("down")) return "down";
  const depths = Object.values(found.dlq_depth);
  const open = depths.reduce<number>((sum, count) => sum + (count ?? Number.POSITIVE_INFINITY), 0);
  const isWell =
    !found.failover.active &&
    !isPullLate &&
    found.last_pull_stats.errors === 0 &&
    found.buffer_events !== null &&
    found.failover.last_resort_events !== null &&
    open <= fewStrangers &&
    Object.values(found.recovery.health_check).every((isOk) => isOk);
  return isWell ? "ok" : "degraded";
};

const stateOf = (probe: () => Promise<void>): Promise<Store> =>
  within(probe).then(
    () => "ok",
    () => "down",
  );

const within = async <T>(work: () => Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${PROBE_MS} ms`)), PROBE_MS);
  });
  try {
    return await Promise.race([work(), late]);
  } finally {
    clearTimeout(timer);
  }
};
