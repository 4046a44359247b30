// A fault for every alert rule, and the alert that it raises.

import { answer, DAY, GiB, type Installation, lag, letters, stage, write } from "./alert-installation.ts";
import type { Alarm } from "./alert-world.ts";
import { EXPORTED } from "./exported-series.ts";

interface Fault extends Alarm {
  /** What happens. It goes on every ten seconds if it is `lasting`. */
  readonly fault: (installation: Installation) => void;
  readonly lasting?: true;
  /** After this long the alert fires. */
  readonly within: number;
  /** Alerts that the same fault raises too. */
  readonly with?: readonly string[];
}

const app = (name: string, over: Readonly<Record<string, string>> = {}) => ({ app: name, ...over });
export const faults: readonly Fault[] = [
  {
    alert: "AppDown",
    fault: ({ world }) => world.end("keeper"),
    within: 80,
    labels: { instance: "keeper:9080", job: "tributary", process: "keeper" },
    summary: "keeper (keeper:9080) has not answered for a minute",
  },
  {
    alert: "EventsLate",
    fault: ({ money }) => write(money, "analytics", 20),
    lasting: true,
    within: 340,
    labels: app("worker", { sink: "analytics" }),
    summary: "worker: 1 % of events reach analytics later than 15 s after they were received",
  },
  {
    alert: "GroupStands",
    fault: ({ money }) => lag(money, "tributary.settle", "claims", 90),
    within: 80,
    labels: app("worker", { group: "tributary.settle" }),
    summary: "worker: tributary.settle has not moved for a minute while records wait",
  },
  {
    alert: "ArchiveLate",
    fault: ({ money }) => lag(money, "tributary.archive", "events.raw", 400),
    within: 320,
    labels: app("worker"),
    summary: "worker: the archive has not stored events for 6m 40s",
  },
  {
    alert: "DeadLetters",
    fault: ({ money }) => write(money, "analytics", 1, new Map([["refused_by_store", 5_000]])),
    within: 10,
    labels: app("worker", { stage: "analytics", reason: "refused_by_store" }),
    summary: "worker: 5000 events of analytics went to the dead letters: refused_by_store",
  },
  {
    alert: "EdgeRefusesToStore",
    fault: ({ ingest }) => answer(ingest, "batch", 503),
    within: 140,
    labels: app("ingest", { edge: "batch" }),
    summary: "ingest: batch answers 503",
  },
  {
    alert: "EdgeInFailover",
    fault: ({ links }) => links.setWaiting({ inFlight: 0, spooled: 9, lastResort: 0, isFailover: true }),
    within: 80,
    labels: app("links", { process: "links" }),
    summary: "links (links) cannot reach the log and keeps events on its own disk",
  },
  {
    alert: "EdgeFails",
    fault: ({ pixel }) => answer(pixel, "pixel", 500),
    within: 10,
    labels: app("pixel", { edge: "pixel" }),
    summary: "pixel: pixel answers 500, which is always a fault of ours",
  },
  {
    alert: "StepsRepeat",
    fault: ({ chain }) => [1, 2, 3, 4].forEach(() => void chain.countRetry("produce")),
    lasting: true,
    within: 560,
    labels: app("worker", { step: "produce" }),
    summary: "worker repeats the step produce: a store or the log answers badly",
  },
  {
    alert: "HintsShed",
    fault: ({ money }) => money.countShed("keys", 3),
    within: 10,
    labels: app("worker", { what: "keys" }),
    summary: "worker leaves out hints of fraud rules, as Redis is nearly full: keys",
  },
  {
    alert: "MemoryTruncated",
    fault: ({ money }) => stage(money, { truncated: 1 }),
    within: 10,
    labels: app("worker", { stage: "settle" }),
    summary: "worker: settle met events older than what it remembers of their keys",
  },
  {
    alert: "ProcessHeavy",
    fault: ({ world }) =>
      world.foreign('process_resident_memory_bytes{app="api",instance="api:9080",job="tributary",process="api"}', GiB),
    within: 620,
    labels: app("api", { instance: "api:9080", job: "tributary", process: "api" }),
    summary: "api (api) holds 1GiB of memory",
  },
  {
    alert: "ScheduleFails",
    fault: ({ keeper }) => keeper.countRun({ schedule: "outbox", done: 0, isFailed: true, seconds: 1 }),
    lasting: true,
    within: 330,
    labels: app("keeper", { schedule: "outbox" }),
    summary: "keeper: the schedule outbox fails or falls behind",
  },
  {
    alert: "DeadLettersParked",
    fault: ({ keeper }) => letters(keeper, { "s2s parked": [7, 60] }),
    within: 10,
    labels: app("keeper", { kind: "s2s" }),
    summary: "keeper: 7 s2s letters were tried ten times in vain",
  },
  {
    alert: "DeadLettersOld",
    fault: ({ keeper }) => letters(keeper, { "s2s waiting": [1, 6 * DAY] }),
    within: 3_610,
    labels: app("keeper", { kind: "s2s" }),
    summary: "keeper: a s2s letter has been open for 6d 0h 0m 0s without being parked",
  },
  {
    alert: "StoreDown",
    fault: ({ keeper }) => keeper.setProbe("cache_store", 3),
    within: 80,
    labels: app("keeper", { probe: "cache_store" }),
    summary: "keeper: cache_store is down, and nothing repairs it by itself",
  },
  {
    alert: "StoreRestartedOften",
    fault: ({ keeper }) => [1, 2].forEach(() => void keeper.countRestart("cache_store")),
    within: 10,
    labels: app("keeper", { probe: "cache_store" }),
    summary: "keeper restarted cache_store 2 times within an hour",
  },
  {
    alert: "SalesLateInPostgres",
    fault: ({ keeper }) => keeper.setSyncLag(1_000),
    within: 320,
    labels: app("keeper"),
    summary: "keeper: sales reach Postgres 16m 40s late",
  },
  {
    alert: "RefundsWait",
    fault: ({ keeper }) => keeper.setWaitingMoney([{ kind: "refund", count: 3, seconds: 3 * DAY }]),
    within: 10,
    labels: app("keeper", { kind: "refund" }),
    summary: "keeper: 3 of kind refund wait for their sale, the oldest for more than 48 h",
  },
  {
    alert: "HeldLinesWait",
    fault: ({ keeper }) => keeper.setWaitingMoney([{ kind: "held", count: 1, seconds: 15 * DAY }]),
    within: 10,
    labels: app("keeper", { kind: "held" }),
    summary: "keeper: a commission has been held for 15d 0h 0m 0s",
  },
  {
    alert: "LedgerUnbalanced",
    fault: ({ keeper }) => keeper.setUnbalanced([{ currency: "MXN", amount: 0.01 }]),
    within: 10,
    labels: app("keeper", { currency: "MXN" }),
    summary: "keeper: the lines of the ledger do not balance by 0.01 MXN",
  },
  {
    alert: "ClientSilent",
    fault: ({ keeper }) => keeper.setSilentClients(2),
    within: 10,
    labels: app("keeper"),
    summary: "keeper: 2 clients that sent events have sent none for 15 minutes",
  },
  {
    alert: "PullsLate",
    fault: ({ keeper }) => keeper.setPullAge(4_000),
    within: 320,
    labels: app("keeper"),
    summary: "keeper: an external source has not been pulled for 1h 6m 40s",
  },
  {
    alert: "CertificateEnds",
    // Time begins at 1970 in promtool.
    fault: ({ pixel }) => pixel.setExpiry(10 * DAY * 1_000),
    within: 10,
    labels: app("pixel", { process: "pixel" }),
    summary: "pixel (pixel): its certificate ends in 9d 23h 59m 40s",
  },
  {
    alert: "CertificateEndsSoon",
    fault: ({ pixel }) => pixel.setExpiry(DAY * 1_000),
    within: 10,
    with: ["CertificateEnds"],
    labels: app("pixel", { process: "pixel" }),
    summary: "pixel (pixel): its certificate ends in 23h 59m 40s",
  },
  {
    alert: "MailsWait",
    fault: ({ keeper }) => keeper.setMails([{ kind: "alert", count: 1, seconds: 2_000 }]),
    within: 10,
    labels: app("keeper", { kind: "alert" }),
    summary: "keeper: no mail server has taken anything of kind alert for 33m 20s",
  },
  {
    alert: "DiskFilling",
    fault: ({ ingest }) => ingest.setDisk("home", { free: 10 * GiB, size: 100 * GiB }),
    within: 320,
    labels: app("ingest", { process: "ingest", place: "home" }),
    summary: "ingest (ingest): the disk of home has 10% left",
  },
  {
    alert: "DiskNearlyFull",
    fault: ({ ingest }) => ingest.setDisk("home", { free: GiB, size: 100 * GiB }),
    within: 80,
    labels: app("ingest", { process: "ingest", place: "home" }),
    summary: "ingest (ingest): the disk of home has 1% left",
  },
  {
    alert: "FigureUnknown",
    fault: ({ keeper }) => {
      keeper.setOpenLetters(null);
      keeper.setKnown("open-letters", false);
    },
    within: 320,
    labels: app("keeper", { process: "keeper", figure: "open-letters" }),
    summary: "keeper (keeper) cannot read open-letters",
  },
  ...Object.entries(EXPORTED).flatMap(([job, series]) =>
    series.flatMap((one) =>
      one.fault === undefined
        ? []
        : [
            {
              alert: one.fault.alert,
              fault: ({ world }: Installation) => world.foreign(one.healthy(job), one.fault!.at),
              within: 320,
              labels: one.fault.labels,
              summary: one.fault.summary,
            },
          ],
    ),
  ),
];
