// Asks every address of the ingest host each minute which path its events take, because a dead edge
// cannot report it. Records the answer hourly and at each change.
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import type { Alert } from "../../../modules/base/alerts/alert.ts";
import type { PathName } from "../../../modules/intake/path/path.ts";
import { type IngestPathCheck, type IngestPathState, sumOrNull } from "../../../modules/intake/path/path-checks.ts";
import { durationOf } from "../../../modules/running/repair/incident.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface AddressCheckParts {
  /** Base URLs; the first is the primary, the others stand by. */
  readonly addresses: readonly string[];
  /**
   * The newest check of ADDRESSES, and since when its state holds; rejects while Postgres is away.
   */
  readonly known: () => Promise<(IngestPathCheck & { readonly since: UnixMs }) | undefined>;
  readonly record: (check: IngestPathCheck) => Promise<void>;
  /** Mails an alert once, however often it is reported. */
  readonly report: (alert: Alert) => Promise<boolean>;
  readonly now: () => UnixMs;
}

/** The name of these checks, beside those that each edge records of itself. */
export const ADDRESSES = "addresses";
const EVERY_MS = 60_000;
const HOUR_MS = 3_600_000;
const ANSWER_MS = 5_000;

/** The answer of an address; `path` is null unless an ingest host has answered. */
interface AddressFound {
  readonly address: string;
  readonly path: PathName | null;
  /** Null: the address does not know. */
  readonly waiting: number | null;
  readonly problem: string | null;
}

interface Failover {
  readonly path?: unknown;
  readonly spooled_events?: number | null;
  readonly last_resort_events?: number | null;
}
const isPath = (path: unknown): path is PathName => ["primary", "standby", "both_down"].includes(path as string);

/** Reads the body whatever the status, because a host that answers 503 may still take events. */
const ask = async (address: string): Promise<AddressFound> => {
  try {
    const answer = await fetch(new URL("/health", address), { signal: AbortSignal.timeout(ANSWER_MS) });
    const { failover = {} } = (await answer.json()) as { readonly failover?: Failover };
    const { path, spooled_events: spooled = 0, last_resort_events: lastResort = 0 } = failover;
    if (isPath(path)) return { address, path, waiting: sumOrNull(spooled, lastResort), problem: null };
    return { address, path: null, waiting: null, problem: `${address} is no ingest host` };
  } catch (error) {
    const { message, cause } = error as Error;
    const why = cause instanceof Error ? cause.message : message;
    return { address, path: null, waiting: null, problem: `${address} does not answer: ${why}` };
  }
};

/** The worst state is both_down: no address takes events except into object storage. */
const stateOfAddresses = (found: readonly AddressFound[]): IngestPathState => {
  if (found.every(({ path }) => path === null || path === "both_down")) return "both_down";
  return found[0]!.path === "primary" ? "operational" : "primary_down";
};

/**
 * The order of durable effects: an outage is recorded before it is reported, so that after a crash
 * between the two the same incident is reported; a recovery is reported before it is recorded, so
 * that it is never omitted. Rejects while Postgres is away.
 */
export const addressChecks = ({ addresses, known, record, report, now }: AddressCheckParts): Schedule => ({
  name: "ingest-addresses",
  pauseMs: EVERY_MS,
  fromStart: true,
  work: async () => {
    const found = await Promise.all(addresses.map(ask));
    const before = await known();
    const problems = found.flatMap(({ problem }) => problem ?? []).join("; ");
    const check: IngestPathCheck = {
      instance: ADDRESSES,
      state: stateOfAddresses(found),
      checked_at: now(),
      waiting_events: found.reduce<number | null>((sum, { waiting }) => sumOrNull(sum, waiting), 0),
      reason: problems === "" ? null : problems.slice(0, 1_000),
    };
    if (before?.state === "both_down" && check.state !== "both_down") await report(recovered(before.since, check));
    const isDue = before?.state !== check.state || check.checked_at - before.checked_at >= HOUR_MS;
    if (isDue) await record(check);
    // The record says since when, and that names the incident: another keeper may have recorded it
    // first.
    if (check.state === "both_down") await report(down((await known())?.since ?? check.checked_at, check));
    return addresses.length;
  },
});

const alertOf = (since: UnixMs, at: UnixMs) => ({
  service: "ingest",
  timestamp: new Date(at).toISOString(),
  incident_id: `inc_ingest_path_${since}`,
});
const down = (since: UnixMs, { reason }: IngestPathCheck): Alert => ({
  ...alertOf(since, since),
  status: "down",
  reason: `no ingest address stores events but in object storage, or not at all: ${reason ?? "all say both_down"}`,
  severity: "critical",
});
const recovered = (since: UnixMs, { checked_at: at, state }: IngestPathCheck): Alert => ({
  ...alertOf(since, at),
  status: "recovered",
  reason: state === "operational" ? "the primary takes events again" : "a standby takes events again",
  duration: durationOf(at - since),
  severity: "normal",
});
