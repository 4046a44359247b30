// Pulls a window of a source page by page; each page is published before it is counted.
import { hit } from "#failpoint";
import type { Hides } from "../../../domain/personal/suppression.ts";
import { readMapping } from "../../../domain/sources/map-payload.ts";
import { edges } from "../../../edges.ts";
import type { AllowedNetworks } from "../../../infra/outbound/outbound.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { retry } from "../../../infra/runtime/timing/retry.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import { admitPulled, type PulledRow } from "../../../processors/admit/sources/pulled-row.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { Position, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { unsealOfSource } from "../../access/secrets/source-secrets.ts";
import { feedNamed, messageOf } from "../../base/feed.ts";
import type { DriverSettings, PulledPage, PullWindow } from "./drivers/driver.ts";
import { SourceBusy } from "./drivers/driver.ts";
import { driverNamed, type PullSettings, pullSettings } from "./drivers/drivers.ts";
import type { OwnedPull } from "./owned-pull.ts";
import type { Pull, PulledRows, PullFault } from "./pulls.ts";

export interface PullPorts {
  /**
   * Undefined or null: the client is not in use. Throws Unavailable while the clients are not
   * loaded.
   */
  readonly facts: (clientId: number, now: UnixMs) => RequestFacts | null | undefined;
  readonly hides: () => Promise<Hides | undefined>;
  readonly known: (pull: Pull, hashes: readonly string[]) => Promise<ReadonlySet<string>>;
  /** Private networks that the driver may reach. */
  readonly allowed: () => Promise<AllowedNetworks>;
  /** Counts events that are in the log and not yet in the analytics store. */
  readonly waiting: () => Promise<number>;
  /** Opened for events.raw. */
  readonly wire: Wire;
  readonly produce: Produce;
  readonly keyring: Keyring;
  readonly clock: () => UnixMs;
  readonly signal: AbortSignal;
}

const DAY_MS = 24 * 3_600_000;
const STEP_MS = 3 * DAY_MS;
/** A source that returns more pages for a window never stops returning pages. */
const MOST_PAGES = 10_000;
/** Above this a pull waits: its rows can come later, live traffic cannot. */
const MOST_WAITING = 5_000;
const HELD_MS = 2_000;
/** Retries of one page; what fails for longer is left to the next turns of the window. */
const TRIES = { deadlineMs: 20_000, firstMs: 250, maxMs: 4_000 };
const FIRST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 10 * 60_000;
/** About three hours of failures. The schedule's next window then begins where this one did. */
const MOST_FAILURES = 24;

const edge = feedNamed(edges, "pull");

/**
 * Works until the window is done, the source returns no page, the pipeline lags, or `isOver`
 * returns true. Each page takes three steps: 1. fetch; 2. publish what is new, with acks of all
 * replicas; 3. store identities, counts and position in one transaction.
 * A crash after 2 fetches the page again and publishes the same records under the same ids, which
 * every store keeps once, and counts them once.
 */
export const workPull = async (
  pull: Pull,
  owned: OwnedPull,
  ports: PullPorts,
  isOver: () => boolean,
): Promise<number> => {
  const ready = readyOf(pull, ports);
  if ("code" in ready) {
    await owned.end("failed", ready);
    return 0;
  }
  let place: PulledRows["next"] = { cursor: pull.cursor, doneTo: pull.done_to };
  let done = 0;
  for (let pages = pull.pages; place.doneTo < pull.to_at; pages += 1) {
    if (pages >= MOST_PAGES) {
      await owned.end("failed", { code: "too_many_pages", field: null, message: `more than ${MOST_PAGES} pages` });
      return done;
    }
    if (isOver() || (await ports.waiting()) > MOST_WAITING) {
      await owned.release(isOver() ? 0 : HELD_MS);
      return done;
    }
    const step = { from: place.doneTo, to: Math.min(place.doneTo + STEP_MS, pull.to_at) };
    const page = await fetched({ pull, owned, ports, settings: ready.settings }, step, place.cursor);
    if (page === undefined) return done;
    place = { cursor: page.nextCursor, doneTo: page.nextCursor === null ? step.to : step.from };
    const taken = await publish(page.rows.map(ready.admit), pull, ports);
    hit("pull-published");
    await owned.advance({ ...taken, next: place });
    hit("pull-counted");
    done += page.rows.length;
  }
  await owned.end("done");
  return done;
};

const readyOf = (pull: Pull, { facts, clock }: PullPorts) => {
  const fault = (code: string, message: string): PullFault => ({ code, field: null, message });
  if (!pull.is_active) return fault("source_not_active", "the source is not active any more");
  const settings = pullSettings.safeParse(pull.pull);
  if (!settings.success) return fault("bad_settings", `pull of the source: ${settings.error.issues[0]?.message}`);
  const client = facts(pull.client_id, clock());
  if (client === undefined || client === null) return fault("unknown_client", "the client is not in use");
  const from = { sourceId: pull.source_id, mapping: readMapping(pull) };
  return { settings: settings.data, admit: admitPulled(from, clock(), client) };
};

interface PullInput {
  readonly pull: Pull;
  readonly owned: OwnedPull;
  readonly ports: PullPorts;
  readonly settings: PullSettings;
}

/**
 * Returns undefined when the source did not return the page; the window then waits, longer each
 * time.
 */
const fetched = async (
  { pull, owned, ports, settings: { driver, url } }: PullInput,
  step: PullWindow,
  cursor: string | null,
): Promise<PulledPage | undefined> => {
  const secret = pull.pull_secret;
  const place = { sourceId: pull.source_id, column: "pull_secret" } as const;
  const settings: DriverSettings = {
    url,
    secret: secret === null ? null : unsealOfSource(secret, place, ports.keyring),
    allowed: await ports.allowed(),
    signal: ports.signal,
  };
  try {
    return await retry(() => driverNamed(driver).fetch(settings, step, cursor), { ...TRIES, signal: ports.signal });
  } catch (error) {
    if (ports.signal.aborted) {
      await owned.release(0);
      return undefined;
    }
    const fault = { code: "source_failed", field: null, message: (error as Error).message.slice(0, 300) };
    if (pull.failures + 1 >= MOST_FAILURES) await owned.end("failed", fault);
    else await owned.failed(fault, waitAfter(pull.failures, error), classify(error) !== "transient");
    return undefined;
  }
};

const waitAfter = (failures: number, error: unknown): number => {
  const said = error instanceof SourceBusy ? (error.retryAfterMs ?? 0) : 0;
  return Math.min(LONGEST_WAIT_MS, Math.max(said, FIRST_WAIT_MS * 2 ** failures));
};

/**
 * Publishes each row once, except known rows and rows of erased persons. They are in the log when
 * it resolves.
 */
const publish = async (rows: readonly PulledRow[], pull: Pull, ports: PullPorts): Promise<Omit<PulledRows, "next">> => {
  const receivedAt = ports.clock();
  const accepted = rows.filter((row) => row.kind === "accepted");
  const faults = rows.flatMap((row) => (row.kind === "refused" ? [faultOf(row.refusal)] : []));
  const hides = await ports.hides();
  const isHidden = ({ event }: { readonly event: EventReceived }): boolean =>
    hides?.(recordOf(event, receivedAt), edge.to.name) === true;
  const visible = accepted.filter((row) => !isHidden(row));
  const distinct = new Map(visible.map((row) => [row.saleHash, row]));
  const asked = [...distinct.values()].flatMap(({ saleHash, hashBefore }) => [saleHash, hashBefore ?? saleHash]);
  const known = await ports.known(pull, [...new Set(asked)]);
  const fresh = [...distinct.values()].filter(
    ({ saleHash, hashBefore }) => !known.has(saleHash) && !known.has(hashBefore ?? saleHash),
  );
  if (fresh.length > 0)
    await ports.produce(fresh.map(({ event }) => messageOf(edge, ports.wire, { receivedAt, event })));
  const hashes = fresh.map(({ saleHash }) => saleHash);
  return { rows: rows.length, hashes, withheld: accepted.length - visible.length, faults };
};

const nowhere: Position = { topic: edge.to.name, partition: -1, offset: -1 };
const recordOf = (event: EventReceived, receivedAt: UnixMs): Recorded<EventReceived> => {
  const { at, data } = edge.record({ event, receivedAt });
  return { id: edge.to.idOf(data), key: edge.to.keyOf(data), at, receivedAt, position: nowhere, data };
};

const faultOf = ({ code, field, message }: PullFault): PullFault => ({ code, field, message });
