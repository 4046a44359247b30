// Checks law L2 (docs/design/laws.md) on reported alerts: each outage of a store is one incident,
// with one alert and one recovery that states the downtime.

import type { UnixMs } from "../../../stream/flow.ts";
import type { KeptAlert } from "./kept-alerts.ts";

/**
 * A time during which a store did not work. An outage shorter than three probes may go unnoticed.
 */
export interface Outage {
  readonly service: string;
  readonly from: UnixMs;
  /** When the store worked again. */
  readonly to: UnixMs;
}

export interface ReportTiming {
  /** The time between two probes: 60 s (docs/design/contracts.md, "Probes"). */
  readonly intervalMs: number;
  /** Extra time for a probe, a restart and the second check. */
  readonly graceMs: number;
}

/**
 * Returns one sentence for each violation; empty if the law holds. `mailed` are subjects or ids of
 * the received mails as `incident_id.status.severity` (the local part of their Message-ID).
 */
export const violationsOfReporting = (
  outages: readonly Outage[],
  alerts: readonly Pick<KeptAlert, "incident_id" | "service" | "status" | "severity" | "told_at" | "duration">[],
  mailed: readonly string[],
  { intervalMs, graceMs }: ReportTiming,
): readonly string[] => {
  const wrong: string[] = [];
  const incidents = byIncident(alerts);
  for (const [id, reported] of incidents) {
    const count = (status: string, severity?: string) =>
      reported.filter((one) => one.status === status && (severity === undefined || one.severity === severity)).length;
    if (count("down") === 0) wrong.push(`${id} recovered and was never down`);
    if (count("recovered") > 1) wrong.push(`${id} recovered ${count("recovered")} times`);
    for (const severity of ["normal", "critical"])
      if (count("down", severity) > 1)
        wrong.push(`${id} was reported down (${severity}) ${count("down", severity)} times`);
    for (const one of reported) {
      if (one.status === "recovered" && (one.duration ?? "") === "") wrong.push(`${id} recovered without a downtime`);
      const mails = mailed.filter((mail) => mail === `${id}.${one.status}.${one.severity}`).length;
      if (mails !== 1) wrong.push(`${mails} mails of ${id} ${one.status} (${one.severity})`);
    }
  }
  for (const { service, from, to } of outages) {
    // Two probes may find the store working, one just before and one just after a shorter outage.
    if (to - from < 3 * intervalMs) continue;
    const during = [...incidents.values()].filter((reported) =>
      reported.some(
        (one) => one.service === service && one.status === "down" && one.told_at >= from && one.told_at <= to + graceMs,
      ),
    );
    if (during.length !== 1)
      wrong.push(`${service} was away from ${iso(from)} to ${iso(to)}: ${during.length} incidents`);
    for (const reported of during) {
      const first = Math.min(...reported.map(({ told_at }) => told_at));
      if (first - from > 3 * intervalMs + graceMs)
        wrong.push(`${service} was reported ${first - from} ms after it had gone`);
      const back = reported.find(({ status }) => status === "recovered");
      if (back === undefined || back.told_at > to + intervalMs + graceMs)
        wrong.push(`the return of ${service} at ${iso(to)} was not reported`);
    }
  }
  return wrong;
};

const byIncident = <T extends { readonly incident_id: string }>(
  alerts: readonly T[],
): ReadonlyMap<string, readonly T[]> => {
  const groups = new Map<string, T[]>();
  for (const alert of alerts) groups.set(alert.incident_id, [...(groups.get(alert.incident_id) ?? []), alert]);
  return groups;
};

const iso = (at: UnixMs): string => new Date(at).toISOString();
