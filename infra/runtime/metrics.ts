// The closed set of metrics, in one registry for each app; counted once a batch, after its commit.
import { type Counter, collectDefaultMetrics, Registry } from "prom-client";
import type { Metrics } from "./metric-counts.ts";
import {
  figureMetrics,
  groupMetrics,
  type Makers,
  makersOf,
  setOrRemove,
  storeMetrics,
  waitingMetrics,
} from "./metrics/gauges.ts";
import { expecting } from "./metrics/series.ts";

export type { Metrics, RequestCounts } from "./metric-counts.ts";

export interface MetricsSettings {
  readonly app: string;
  readonly version: string;
  readonly commit: string;
}

// Buckets from a fetch of 50 ms to the 60 s within which every fault must be over
// (docs/design/laws.md L1).
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
// The promise is 5 s (p95), 15 s (p99) and 60 s during a fault (docs/design/laws.md, "Targets");
// replays and outages take longer.
const AGES = [0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 15, 30, 60, 300, 3_600, 86_400];
// One observation costs 0.3 us; 64 of a batch show the same distribution as all of them.
const AGES_OF_A_BATCH = 64;

export const openMetrics = ({ app, version, commit }: MetricsSettings): Metrics => {
  const registry = new Registry();
  registry.setDefaultLabels({ app });
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 });
  const make = makersOf(registry);
  make
    .gauge("tributary_build_info", "What is running; always 1", ["version", "commit", "node"])
    .set({ version, commit, node: process.version }, 1);
  return {
    ...stageMetrics(make),
    ...edgeMetrics(make),
    ...scheduleMetrics(make),
    ...waitingMetrics(make),
    ...storeMetrics(make),
    ...groupMetrics(make),
    ...figureMetrics(make),
    expect: expecting(registry),
    list: () =>
      (registry.getMetricsAsArray() as unknown as readonly MetricParts[])
        .map(({ name, type, labelNames, help }) => ({ name, type, labels: labelNames, help }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
};

/** Stages, sinks and their batches. */
const stageMetrics = (make: Makers): Pick<Metrics, "countBatch" | "countWrite"> => {
  const lost = {
    dropped: make.counter("tributary_events_dropped_total", "Events that a named policy ended", ["stage", "reason"]),
    rejected: make.counter(
      "tributary_events_rejected_total",
      "Events that went to the dead letters, by the code of the letter",
      ["stage", "reason"],
    ),
  };
  return { countBatch: batchMetrics(make, lost), countWrite: writeMetrics(make, lost) };
};

/** The events that a stage or a sink ended, by reason. */
type LostEvents = Readonly<Record<"dropped" | "rejected", Counter<"stage" | "reason">>>;

const batchMetrics = ({ counter, histogram }: Makers, { dropped, rejected }: LostEvents): Metrics["countBatch"] => {
  const eventsIn = counter(
    "tributary_events_in_total",
    "Events given to a stage = emitted + recalled + dropped + rejected",
    ["stage"],
  );
  const emitted = counter("tributary_events_emitted_total", "Events that a stage answered with outputs", ["stage"]);
  const recalled = counter(
    "tributary_events_recalled_total",
    "Events decided before and answered with their recorded outcome",
    ["stage"],
  );
  const truncated = counter("tributary_events_truncated_total", "Events older than what is remembered of their key", [
    "stage",
  ]);
  const outputs = counter("tributary_outputs_total", "Events that a stage made", ["stage"]);
  const batchSeconds = histogram(
    "tributary_batch_duration_seconds",
    "One batch, from decoding to its commit",
    ["chain"],
    SECONDS,
  );
  return ({ chain, stages, unreadable, seconds }) => {
    batchSeconds.observe({ chain }, seconds);
    for (const [reason, count] of unreadable) rejected.inc({ stage: chain, reason }, count);
    for (const { stage, ...counts } of stages) {
      eventsIn.inc({ stage }, counts.events);
      emitted.inc({ stage }, counts.emitting);
      outputs.inc({ stage }, counts.outputs);
      if (counts.recalled > 0) recalled.inc({ stage }, counts.recalled);
      if (counts.truncated > 0) truncated.inc({ stage }, counts.truncated);
      for (const [reason, count] of counts.dropped) dropped.inc({ stage, reason }, count);
      for (const [reason, count] of counts.rejected) rejected.inc({ stage, reason }, count);
    }
  };
};

const writeMetrics = ({ counter, histogram }: Makers, { dropped, rejected }: LostEvents): Metrics["countWrite"] => {
  const rows = counter("tributary_rows_written_total", "Rows that a store has acknowledged", ["sink", "table"]);
  const writeSeconds = histogram("tributary_write_duration_seconds", "One write of a sink", ["sink"], SECONDS);
  const age = histogram(
    "tributary_event_age_seconds",
    "From received by an edge to stored; a sample of each write",
    ["sink"],
    AGES,
  );
  return ({ sink, table, rows: written, rejected: bad, withheld = 0, seconds, receivedAt }, now) => {
    rows.inc({ sink, table }, written);
    if (withheld > 0) dropped.inc({ stage: sink, reason: "withheld" }, withheld);
    for (const [reason, count] of bad) rejected.inc({ stage: sink, reason }, count);
    writeSeconds.observe({ sink }, seconds);
    const step = Math.max(1, receivedAt.length / AGES_OF_A_BATCH);
    for (let n = 0; n < receivedAt.length; n += step)
      age.observe({ sink }, Math.max(0, now - receivedAt[Math.floor(n)]!) / 1_000);
  };
};

/** Edges, and the events that wait in them for the log. */
const edgeMetrics = ({ counter, gauge, histogram }: Makers): Pick<Metrics, "countRequest" | "setWaiting"> => {
  const requests = counter("tributary_requests_total", "Answers of an edge", ["edge", "status"]);
  const requestSeconds = histogram(
    "tributary_request_duration_seconds",
    "From the end of the head to the answer",
    ["edge"],
    SECONDS,
  );
  const accepted = counter("tributary_events_accepted_total", "Events that an edge has answered for", ["edge"]);
  const refused = counter("tributary_events_refused_total", "Events that an edge refused", ["edge", "code"]);
  const waiting = gauge("tributary_log_waiting_messages", "Taken by an edge and not acknowledged by the log", []);
  const spooled = gauge("tributary_spool_events", "Events in the edge's own spool; absent while it is unread", []);
  const lastResort = gauge(
    "tributary_last_resort_events",
    "Events of the edge in object storage, waiting for the log; absent while it is unread",
    [],
  );
  const failover = gauge("tributary_failover_active", "1 while an edge's events do not go into the log directly", []);
  return {
    countRequest: ({ edge, status, seconds, accepted: taken, refused: codes }) => {
      requests.inc({ edge, status: String(status) });
      requestSeconds.observe({ edge }, seconds);
      if (taken > 0) accepted.inc({ edge }, taken);
      for (const [code, count] of codes) refused.inc({ edge, code }, count);
    },
    setWaiting: (counts) => {
      waiting.set(counts.inFlight);
      setOrRemove(spooled, counts.spooled);
      setOrRemove(lastResort, counts.lastResort);
      failover.set(counts.isFailover ? 1 : 0);
    },
  };
};

/** Schedules, and the steps that are retried. */
const scheduleMetrics = ({
  counter,
  gauge,
  histogram,
}: Makers): Pick<Metrics, "countRetry" | "countShed" | "countRun" | "setBacklog"> => {
  const shed = counter("tributary_hints_shed_total", "Members, answers and keys of hints that Redis had no room for", [
    "what",
  ]);
  const retries = counter("tributary_retries_total", "Steps tried again", ["step"]);
  const runSeconds = histogram(
    "tributary_schedule_run_duration_seconds",
    "One run of a schedule",
    ["schedule"],
    SECONDS,
  );
  const runDone = counter("tributary_schedule_done_total", "Pieces of work that a schedule has done", ["schedule"]);
  const runFailed = counter("tributary_schedule_failures_total", "Runs that failed; the next one tries again", [
    "schedule",
  ]);
  const backlog = gauge("tributary_schedule_backlog", "Pieces of work that wait for a schedule", ["schedule"]);
  const backlogAge = gauge("tributary_schedule_backlog_seconds", "For how long the oldest of them waits", ["schedule"]);
  return {
    countRetry: (step) => retries.inc({ step }),
    countShed: (what, count) => shed.inc({ what }, count),
    countRun: ({ schedule, done, isFailed, seconds }) => {
      runSeconds.observe({ schedule }, seconds);
      if (done > 0) runDone.inc({ schedule }, done);
      if (isFailed) runFailed.inc({ schedule });
    },
    setBacklog: (schedule, waiting) => {
      if (waiting === null) {
        backlog.remove({ schedule });
        backlogAge.remove({ schedule });
      } else {
        backlog.set({ schedule }, waiting.count);
        backlogAge.set({ schedule }, waiting.seconds);
      }
    },
  };
};

/** The fields of a metric that the library has and its types leave out. */
interface MetricParts {
  readonly name: string;
  readonly type: string;
  readonly labelNames: readonly string[];
  readonly help: string;
}
