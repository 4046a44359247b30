// The status of the health report by the answers of its probes: every bad flag or counter makes it
// degraded, and a store or log that is away makes it down.
import { describe, expect, test, vi } from "vitest";
import { type HealthPorts, healthOf } from "../../apps/ingest/routes/health.ts";
import type { Admin, Lag } from "../../infra/kafka/kafka.ts";
import type { PullHealth } from "../../modules/intake/pulls/pull-health.ts";

const marks = [{ partition: 0, low: 0, high: 100 }];
/** A log of one partition with 100 records, of which every group has read `committed`. */
const logAt = (committed: number) => async (): Promise<Admin> =>
  ({
    watermarks: async () => marks,
    offsetsAt: async () => new Map([[0, 100]]),
    committed: async () => new Map([[0, committed]]),
    lag: async (): Promise<readonly Lag[]> => [],
  }) as unknown as Admin;
const pulled: PullHealth = {
  lastPullAt: Date.UTC(2026, 10, 1),
  isLate: false,
  stats: { rows: 3, new: 2, duplicate: 1, errors: 0, window: null },
};
const away = () => Promise.reject(new Error("away"));

const well: HealthPorts = {
  version: "1.2.3",
  startedAt: Date.now(),
  analytics: async () => undefined,
  cache: async () => undefined,
  relational: async () => undefined,
  backbone: async () => undefined,
  objects: async () => undefined,
  lastResort: async () => ({}),
  letters: async () => ({ clicks: 0, pixel: 0, s2s: 0 }),
  path: () => ({
    path: "primary",
    active: false,
    spooledEvents: 0,
    lastResortEvents: 0,
    oldestSec: 0,
    byKind: { clicks: 0, pixel: 0, s2s: 0 },
    spoolProblem: null,
  }),
  admin: logAt(100),
  hosts: async () => () => ({ group: "tributary.all", topic: "events.raw", nodes: ["analytics"], isRecorded: true }),
  pulls: async () => pulled,
};
const reportOf = (change: Partial<HealthPorts>) => healthOf({ ...well, ...change })();

test("it is ok when everything is well", async () => {
  expect(await reportOf({})).toMatchObject({
    status: "ok",
    buffer_events: 0,
    recovery: { health_check: { analytics_ok: true, wal_ok: true, relational_ok: true, cache_ok: true } },
  });
});

describe("it is degraded, and the report names why", () => {
  test.each<[string, Partial<HealthPorts>, object]>([
    ["object storage takes no object", { objects: away }, { recovery: { health_check: { wal_ok: false } } }],
    ["the archive is behind", { admin: logAt(99) }, { recovery: { health_check: { wal_ok: false } } }],
    [
      "the spool cannot be read",
      {
        path: () => ({
          ...well.path(),
          ...{ path: "standby", active: true, spooledEvents: null, oldestSec: null, byKind: null, spoolProblem: "EIO" },
        }),
      },
      {
        failover: { active: true, path: "standby", spooled_events: null, oldest_sec: null },
        dlq_depth: { clicks: null, pixel: null, s2s: null },
      },
    ],
    [
      "object storage was not read yet",
      { path: () => ({ ...well.path(), lastResortEvents: null, oldestSec: null }) },
      { failover: { active: false, last_resort_events: null } },
    ],
    ["who hosts what is not known", { hosts: away }, { buffer_events: null }],
    ["dead letters are not known", { letters: away }, { dlq_depth: { clicks: null, pixel: null, s2s: null } }],
    ["a dead letter is open", { letters: async () => ({ clicks: 1 }) }, { dlq_depth: { clicks: 1 } }],
    [
      "one is open beside those of strangers",
      { letters: async () => ({ pixel: 9, s2s: 1, fewStrangers: 9 }) },
      { dlq_depth: { pixel: 9, s2s: 1 } },
    ],
    [
      "a pull is late",
      { pulls: async () => ({ ...pulled, isLate: true }) },
      { last_pull_at: "2026-11-01T00:00:00.000Z" },
    ],
    [
      "a pull has failed",
      { pulls: async () => ({ ...pulled, stats: { ...pulled.stats, errors: 1 } }) },
      { last_pull_stats: { errors: 1 } },
    ],
    ["failover is active", { path: () => ({ ...well.path(), active: true }) }, { failover: { active: true } }],
  ])("%s", async (_, change, named) => {
    expect(await reportOf(change)).toMatchObject({ status: "degraded", ...named });
  });
});

test("a few open letters of strangers are counted, and leave it ok", async () => {
  const letters = async () => ({ clicks: 0, pixel: 9, s2s: 1, fewStrangers: 10 });
  expect(await reportOf({ letters })).toMatchObject({ status: "ok", dlq_depth: { clicks: 0, pixel: 9, s2s: 1 } });
});

test.each<[string, Partial<HealthPorts>]>([
  ["analytics_store", { analytics: away }],
  ["cache_store", { cache: away }],
  ["relational_store", { relational: away }],
  ["backbone", { backbone: away }],
])("it is down when %s is", async (name, change) => {
  expect(await reportOf(change)).toMatchObject({ status: "down", [name]: "down" });
});

test("after a sleep of the machine, which stops its monotonic clock, the first report is a new one", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  try {
    let isAway = true;
    const report = healthOf({ ...well, analytics: () => (isAway ? away() : Promise.resolve()) });
    expect((await report()).status).toBe("down");
    isAway = false;
    expect((await report()).status).toBe("down");
    vi.setSystemTime(Date.now() + 20 * 60_000);
    expect((await report()).status).toBe("ok");
  } finally {
    vi.useRealTimers();
  }
});
