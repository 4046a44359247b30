// The series that an app may report, there with 0 from its start. Prometheus sees an increase only
// between two samples, so a counter that is born with its first fault raises no alarm.
import type { Counter, Histogram, Registry } from "prom-client";
import { sinkRefusals } from "../../../stream/dead-letters.ts";
import { unreadableCodes } from "../../../stream/wire.ts";
import type { ExpectedSeries, Metrics } from "../metric-counts.ts";

/** Every status that an edge answers by itself (infra/http/problem.ts), and the good ones. */
const STATUSES = [200, 202, 204, 302, 400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503].map(String);

export const expecting = (registry: Registry): Metrics["expect"] => {
  const zero = (name: string, labels: Readonly<Record<string, string>>): void =>
    (registry.getSingleMetric(name) as Counter).inc(labels, 0);
  const empty = (name: string, labels: Readonly<Record<string, string>>): void =>
    (registry.getSingleMetric(name) as Histogram).zero(labels);
  const ofStage = ({ stage, rejects }: NonNullable<ExpectedSeries["stages"]>[number]): void => {
    for (const kind of ["in", "emitted", "recalled", "truncated"]) zero(`tributary_events_${kind}_total`, { stage });
    zero("tributary_outputs_total", { stage });
    for (const reason of rejects) zero("tributary_events_rejected_total", { stage, reason });
  };
  const ofSink = ({ sink, table }: NonNullable<ExpectedSeries["sinks"]>[number]): void => {
    zero("tributary_rows_written_total", { sink, table });
    for (const reason of [...unreadableCodes, ...sinkRefusals])
      zero("tributary_events_rejected_total", { stage: sink, reason });
    for (const name of ["tributary_write_duration_seconds", "tributary_event_age_seconds"]) empty(name, { sink });
  };
  const ofEdge = (edge: string): void => {
    for (const status of STATUSES) zero("tributary_requests_total", { edge, status });
    zero("tributary_events_accepted_total", { edge });
    empty("tributary_request_duration_seconds", { edge });
  };
  const ofSchedule = (schedule: string): void => {
    for (const kind of ["done", "failures"]) zero(`tributary_schedule_${kind}_total`, { schedule });
    empty("tributary_schedule_run_duration_seconds", { schedule });
  };
  return ({
    chains = [],
    stages = [],
    sinks = [],
    steps = [],
    edges = [],
    schedules = [],
    probes = [],
    hints = [],
  }) => {
    for (const chain of chains) {
      for (const reason of unreadableCodes) zero("tributary_events_rejected_total", { stage: chain, reason });
      empty("tributary_batch_duration_seconds", { chain });
    }
    stages.forEach(ofStage);
    sinks.forEach(ofSink);
    edges.forEach(ofEdge);
    schedules.forEach(ofSchedule);
    for (const step of steps) zero("tributary_retries_total", { step });
    for (const probe of probes) zero("tributary_restarts_total", { probe });
    for (const what of hints) zero("tributary_hints_shed_total", { what });
  };
};
