// The state machine of a probed store: computes the next state from a probe's result, and what to
// do and report. Pure.
import type { UnixMs } from "../../../stream/flow.ts";
import type { Alert } from "../../base/alerts/alert.ts";

/** The four stores, the log, and whether events are processed at all. */
export const probeNames = [
  "analytics_store",
  "cache_store",
  "object_store",
  "relational_store",
  "event_log",
  "event_processing",
] as const;
export type ProbeName = (typeof probeNames)[number];

/** The state of a store. `incident` exists from the third failure to the recovery. */
export interface Probe {
  readonly name: ProbeName;
  readonly state: "healthy" | "failing" | "restarting" | "down";
  /** Failed probes in a row. */
  readonly failures: number;
  /** When it entered this state. */
  readonly since: UnixMs;
  readonly lastOkAt: UnixMs | null;
  readonly lastError: string | null;
  /**
   * Time of the first of these failures. The downtime is counted from here, so it is short by less
   * than one interval.
   */
  readonly failingSince: UnixMs | null;
  readonly incidentId: string | null;
  /** Restarts of the last hour, oldest first. */
  readonly restartedAt: readonly UnixMs[];
}

/** The result of one probe. */
export type ProbeAnswer = { readonly at: UnixMs; readonly error: string | null };

export interface Step {
  readonly probe: Probe;
  /** The store is to be restarted now, and probed again RECHECK_MS later. */
  readonly isRestart: boolean;
  readonly alerts: readonly Alert[];
}

/** docs/design/contracts.md, "Probes". */
export const INTERVAL_MS = 60_000;
/**
 * The log and what is done with it are probed twice as often: nothing is processed without the log,
 * and three probes that each wait for 10 s must raise an alarm within 3 minutes.
 */
export const LOG_INTERVAL_MS = 30_000;
export const RECHECK_MS = 10_000;
const FAILURES = 3;
/**
 * A store that was restarted this often within an hour is not restarted again, since the cause
 * survives the restart (docs/design/contracts.md, "Probes").
 */
const RESTARTS = 3;
const HOUR_MS = 3_600_000;

/** Without `canRestart` the third failure leads from failing to down. */
export const step = (before: Probe, { at, error }: ProbeAnswer, canRestart: boolean): Step => {
  const restartedAt = before.restartedAt.filter((time) => at - time < HOUR_MS);
  const quiet = (probe: Probe): Step => ({ probe, isRestart: false, alerts: [] });

  if (error === null) {
    const since = before.state === "healthy" ? before.since : at;
    const probe: Probe = {
      ...before,
      ...{ state: "healthy", failures: 0, since, lastOkAt: at, failingSince: null, incidentId: null, restartedAt },
    };
    return before.incidentId === null ? quiet(probe) : { ...quiet(probe), alerts: [recovered(before, at)] };
  }

  const failures = before.failures + 1;
  const failingSince = before.failingSince ?? at;
  const known = { ...before, failures, failingSince, lastError: error, restartedAt };
  if (before.state === "down") return quiet(known);
  if (before.state === "restarting") {
    const probe: Probe = { ...known, state: "down", since: at };
    return { ...quiet(probe), alerts: [down(probe, at, "critical", `still fails after its restart: ${error}`)] };
  }
  if (failures < FAILURES)
    return quiet({ ...known, state: "failing", since: before.state === "failing" ? before.since : at });

  const incidentId = `inc_${before.name}_${failingSince}`;
  const failed = `${failures} probes in a row failed, the first at ${new Date(failingSince).toISOString()}: ${error}`;
  const isWornOut = canRestart && restartedAt.length >= RESTARTS;
  if (!canRestart || isWornOut) {
    const probe: Probe = { ...known, state: "down", since: at, incidentId };
    const reason = isWornOut
      ? `${failed}; it was restarted ${RESTARTS} times within an hour and is left alone now`
      : failed;
    return { ...quiet(probe), alerts: [down(probe, at, "critical", reason)] };
  }
  const probe: Probe = { ...known, state: "restarting", since: at, incidentId, restartedAt: [...restartedAt, at] };
  return { probe, isRestart: true, alerts: [down(probe, at, "normal", `${failed}; it is being restarted`)] };
};

const down = ({ name, incidentId }: Probe, at: UnixMs, severity: Alert["severity"], reason: string): Alert => ({
  service: name,
  status: "down",
  reason,
  timestamp: new Date(at).toISOString(),
  incident_id: incidentId!,
  severity,
});

const recovered = ({ name, incidentId, failingSince }: Probe, at: UnixMs): Alert => ({
  service: name,
  status: "recovered",
  reason: "the probe succeeds again",
  duration: durationOf(at - failingSince!),
  timestamp: new Date(at).toISOString(),
  incident_id: incidentId!,
  severity: "normal",
});

/** Formats `1 h 2 min 3 s`, without leading zero units. */
export const durationOf = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  const parts = [
    [Math.floor(seconds / 3_600), "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  return (first < 0 ? parts.slice(2) : parts.slice(first)).map(([count, unit]) => `${count} ${unit}`).join(" ");
};
