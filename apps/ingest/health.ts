// apps/ingest/health.ts - GET /health: the specification's report, from probes that are asked at most every two seconds and never wait long.
import type { Admin } from "../../stream/admin.ts";
import { WAY } from "./progress.ts";

/** What is asked; each rejects when the thing is not well. A probe that hangs counts as failed after PROBE_MS. */
export interface HealthPorts {
  readonly version: string;
  /** Unix milliseconds when this process began to serve. */
  readonly startedAt: number;
  readonly analytics: () => Promise<void>;
  readonly cache: () => Promise<void>;
  readonly relational: () => Promise<void>;
  /** A produce to the probe topic, acknowledged. */
  readonly backbone: () => Promise<void>;
  readonly admin: () => Promise<Admin>;
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
  /** Null while the log cannot be asked: nobody knows. */
  readonly buffer_events: number | null;
  readonly dlq_depth: { readonly clicks: number | null; readonly pixel: number | null; readonly s2s: number | null };
  readonly last_pull_at: null;
  readonly last_pull_stats: { readonly rows: 0; readonly new: 0; readonly duplicate: 0; readonly errors: 0; readonly window: null };
  readonly failover: { readonly active: false };
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
const PROBE_MS = 2_000;
/** Events younger than this are on their way; older ones that are not stored are waiting (contracts.md 2). */
const ON_THEIR_WAY_MS = 5_000;

const DEAD_LETTERS = { clicks: "clicks.dlq", pixel: "pixel.dlq", s2s: "s2s.dlq" } as const;

/** A function that answers with the newest report; callers at once share one round of probes. */
export const healthOf = (ports: HealthPorts): (() => Promise<HealthReport>) => {
  let latest: { readonly at: number; readonly report: Promise<HealthReport> } | undefined;
  return () => {
    const now = performance.now();
    if (latest === undefined || now - latest.at > CACHED_MS) latest = { at: now, report: report(ports) };
    return latest.report;
  };
};

const report = async (ports: HealthPorts): Promise<HealthReport> => {
  const [analytics, cache, relational, backbone, waiting, letters] = await Promise.all([
    stateOf(ports.analytics),
    stateOf(ports.cache),
    stateOf(ports.relational),
    stateOf(ports.backbone),
    within(async () => waitingEvents(await ports.admin())).catch(() => null),
    within(async () => openLetters(await ports.admin())).catch(() => null),
  ]);
  const isDown = [analytics, cache, relational, backbone].includes("down");
  const hasLetters = letters !== null && Object.values(letters).some((count) => count > 0);
  return {
    // degraded also covers an active failover and a late pull; this version has neither a spool nor pulled sources
    status: isDown ? "down" : hasLetters ? "degraded" : "ok",
    version: ports.version,
    uptime_sec: Math.floor((Date.now() - ports.startedAt) / 1_000),
    analytics_store: analytics,
    cache_store: cache,
    relational_store: relational,
    backbone,
    buffer_events: waiting,
    dlq_depth: letters ?? { clicks: null, pixel: null, s2s: null },
    last_pull_at: null,
    last_pull_stats: { rows: 0, new: 0, duplicate: 0, errors: 0, window: null },
    failover: { active: false },
    recovery: {
      health_check: {
        analytics_ok: analytics === "ok",
        // The write-ahead log is the Kafka topic; once its archive exists, this also says that an object can be put and the archive is at most 5 min behind.
        wal_ok: backbone === "ok",
        relational_ok: relational === "ok",
        cache_ok: cache === "ok",
      },
    },
    time_zone_data: process.versions.tz ?? "unknown",
  };
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

/** Records before the mark of five seconds ago that a group on the way has not committed. Each event waits at one hop at a time. */
const waitingEvents = async (admin: Admin): Promise<number> => {
  const counts = await Promise.all(
    WAY.map(async ([group, topic]) => {
      const [marks, due, committed] = await Promise.all([
        admin.watermarks(topic),
        admin.offsetsAt(topic, Date.now() - ON_THEIR_WAY_MS),
        admin.committed(group, topic),
      ]);
      return marks.reduce(
        (sum, { partition, low, high }) =>
          sum + Math.max(0, Math.min(high, due.get(partition) ?? high) - (committed.get(partition) ?? low)),
        0,
      );
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
};

/** Nothing takes dead letters out of their topics yet, so what a topic holds is what is waiting. */
const openLetters = async (admin: Admin): Promise<{ readonly clicks: number; readonly pixel: number; readonly s2s: number }> => {
  const count = async (topic: string): Promise<number> =>
    (await admin.watermarks(topic)).reduce((sum, { low, high }) => sum + high - low, 0);
  const [clicks, pixel, s2s] = await Promise.all([count(DEAD_LETTERS.clicks), count(DEAD_LETTERS.pixel), count(DEAD_LETTERS.s2s)]);
  return { clicks, pixel, s2s };
};
