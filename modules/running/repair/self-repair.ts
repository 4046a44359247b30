// Watches one store: probes it, restarts it once an incident, stores its state, and reports its
// alerts. One keeper watches a store at a time.
import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Alert } from "../../base/alerts/alert.ts";
import { isCuredByRestart } from "./findings.ts";
import { INTERVAL_MS, type Probe, type ProbeName, RECHECK_MS, type Step, step } from "./incident.ts";
import type { ProbeRow } from "./probe-states.ts";
import { answerOf, type Look } from "./probes.ts";
import type { Restart } from "./restarts.ts";

/**
 * Where states are stored: modules/running/repair/probe-states.ts bound to a pool and a holder. All
 * functions reject while Postgres is down.
 */
interface ProbeBook {
  readonly take: (name: ProbeName, leaseMs: number) => Promise<ProbeRow | undefined>;
  readonly save: (
    row: ProbeRow,
    alerts: readonly { readonly alert: Alert; readonly isMailed: boolean }[],
    leaseMs: number,
  ) => Promise<boolean>;
  readonly unmailed: (name: ProbeName) => Promise<readonly Alert[]>;
}

export interface Repair {
  readonly name: ProbeName;
  readonly look: Look;
  readonly restart: () => Restart | undefined;
  readonly book: ProbeBook;
  /**
   * Resolves with true when its mail has been accepted. Rejects when the alert could not be
   * delivered.
   */
  readonly report: (alert: Alert) => Promise<boolean>;
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly show?: (probe: Probe) => void;
  readonly clock?: () => UnixMs;
  /** Milliseconds; only tests shorten them. */
  readonly timing?: { readonly intervalMs?: number; readonly recheckMs?: number; readonly probeMs?: number };
}

/** A store that takes longer is useless; ClickHouse under full load needs about one second. */
const PROBE_MS = 10_000;
/**
 * The time between two renewals of the lease: a probe, a forced restart with a slow start, and the
 * re-check.
 */
const RESTART_LEASE_MS = 180_000;
const CLOSING_ASKED_MS = 250;
/** Alerts that wait in memory while Postgres is down; an incident raises three at most. */
const MOST_PENDING = 30;

/** The state that a keeper holds of one store. */
class StoreWatch {
  readonly #repair: Repair;
  readonly #clock: () => UnixMs;
  readonly #leaseMs: number;
  readonly #recheckMs: number;
  readonly #probeMs: number;
  #held: Probe | undefined;
  #isSaved = true;
  #pending: { alert: Alert; isMailed: boolean }[] = [];

  constructor(repair: Repair) {
    const { intervalMs = INTERVAL_MS, recheckMs = RECHECK_MS, probeMs = PROBE_MS } = repair.timing ?? {};
    this.#repair = repair;
    this.#clock = repair.clock ?? Date.now;
    this.#recheckMs = recheckMs;
    this.#probeMs = probeMs;
    // Two rounds may be missed before another keeper takes over.
    this.#leaseMs = intervalMs + probeMs + Math.min(20_000, intervalMs);
  }

  async round(isClosing: () => boolean): Promise<number | "busy"> {
    const { look, restart } = this.#repair;
    const before = await this.#take();
    if (before === undefined) return "busy";
    const error = await answerOf(look, this.#probeMs, alertedOf(before));
    const restarting = isCuredByRestart(error) ? restart() : undefined;
    const first = step(before, { error, at: this.#clock() }, restarting !== undefined);
    // The restart has not been used yet: the next keeper finds the same state and restarts the
    // store.
    if (first.isRestart && isClosing()) return 1;
    if (!(await this.#keep(first, first.isRestart ? this.#leaseMs + RESTART_LEASE_MS : this.#leaseMs))) return "busy";
    if (first.isRestart) {
      await unlessClosing(Promise.all([this.#restart(restarting!), this.#reportAll()]), isClosing);
      await unlessClosing(sleep(this.#recheckMs), isClosing);
      if (isClosing()) return 1;
      const again = { error: await answerOf(look, this.#probeMs), at: this.#clock() };
      if (!(await this.#keep(step(first.probe, again, true), this.#leaseMs))) return "busy";
    }
    await this.#reportAll();
    await this.#reportUnmailed(isClosing);
    return 1;
  }

  async #take(): Promise<Probe | undefined> {
    const { name, book, log } = this.#repair;
    try {
      const row = await book.take(name, this.#leaseMs);
      if (row === undefined) {
        // Another keeper has the store, and has reported its alerts.
        this.#held = undefined;
        this.#pending = [];
        this.#isSaved = true;
      } else if (this.#isSaved || this.#held === undefined) this.#held = probeOf(row);
    } catch (error) {
      if (this.#held === undefined) throw error;
      log.warn("probe.not_saved", { probe: name, error });
      this.#isSaved = false;
    }
    return this.#held;
  }

  /** Returns false when another keeper has taken the store. */
  async #keep({ probe, alerts }: Step, leaseForMs: number): Promise<boolean> {
    const { name, book, log, show } = this.#repair;
    if (probe.state !== this.#held?.state)
      log[probe.state === "healthy" ? "info" : "warn"]("probe.changed", {
        probe: name,
        from: this.#held?.state,
        to: probe.state,
        error: probe.lastError,
      });
    this.#held = probe;
    this.#pending = [...this.#pending, ...alerts.map((alert) => ({ alert, isMailed: false }))].slice(-MOST_PENDING);
    show?.(probe);
    try {
      const isMine = await book.save(rowOf(probe, this.#clock()), this.#pending, leaseForMs);
      this.#isSaved = true;
      if (!isMine) this.#held = undefined;
      return isMine;
    } catch (error) {
      log.warn("probe.not_saved", { probe: name, error });
      this.#isSaved = false;
      return true;
    }
  }

  async #reportAll(): Promise<void> {
    const { report, log } = this.#repair;
    for (const entry of this.#pending) {
      if (entry.isMailed) continue;
      try {
        entry.isMailed = await report(entry.alert);
      } catch (error) {
        log.error("alert.not_told", { incident_id: entry.alert.incident_id, status: entry.alert.status, error });
      }
    }
    // Saved alerts are retried from the database; unsaved ones stay here until they are saved.
    if (this.#isSaved) this.#pending = [];
  }

  async #reportUnmailed(isClosing: () => boolean): Promise<void> {
    const { name, book, report } = this.#repair;
    if (!this.#isSaved) return;
    for (const alert of await book.unmailed(name).catch(() => []))
      if (!isClosing()) await report(alert).catch(() => undefined);
  }

  async #restart(run: Restart): Promise<void> {
    const { name, log } = this.#repair;
    log.warn("restart.begun", { probe: name });
    await run().catch((error: unknown) => log.error("restart.failed", { probe: name, error }));
  }
}

/**
 * The order of durable effects: state and alerts are saved in one transaction, then the store is
 * restarted, then the alerts are reported.
 * A keeper that dies before the restart, or is stopped during it, has used it up: its successor
 * finds `restarting`, probes again, and reports `down` if nothing has changed. So an incident has
 * at most one restart.
 * A keeper that dies before reporting leaves unmailed alerts, which are tried again every minute
 * for an hour. While Postgres is down, the keeper that holds a store continues from memory and
 * saves later; other keepers wait.
 */
export const selfRepair = (repair: Repair): Schedule => {
  const watch = new StoreWatch(repair);
  return {
    name: `probe-${repair.name.replace("_", "-")}`,
    pauseMs: repair.timing?.intervalMs ?? INTERVAL_MS,
    fromStart: true,
    work: (isClosing) => watch.round(isClosing),
  };
};

/**
 * Resolves when `work` is done, or soon after the keeper begins to stop: a restart may take longer
 * than a process has for its shutdown (docs/design/laws.md L4).
 */
const unlessClosing = async (work: Promise<unknown>, isClosing: () => boolean): Promise<void> => {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  while (!isDone && !isClosing()) await Promise.race([done, sleep(CLOSING_ASKED_MS)]);
};

/** Returns the error of the open incident; null while there is none. */
const alertedOf = ({ incidentId, lastError }: Probe): string | null => (incidentId === null ? null : lastError);

const probeOf = (row: ProbeRow): Probe => ({
  name: row.name as ProbeName,
  state: row.state,
  failures: row.failures,
  since: row.since,
  lastOkAt: row.last_ok_at,
  lastError: row.last_error,
  failingSince: row.failing_since,
  incidentId: row.incident_id,
  restartedAt: row.restarted_at,
});

const rowOf = (probe: Probe, checkedAt: UnixMs): ProbeRow => ({
  name: probe.name,
  state: probe.state,
  failures: probe.failures,
  since: probe.since,
  checked_at: checkedAt,
  last_ok_at: probe.lastOkAt,
  last_error: probe.lastError,
  failing_since: probe.failingSince,
  incident_id: probe.incidentId,
  restarted_at: probe.restartedAt,
});
