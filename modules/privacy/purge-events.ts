// Purges the events of the analytics store that are older than their client keeps them, or than
// their visitor allows. Orders, refunds, leads and installs stay, without their visitor: money is
// explained by them.
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { literal } from "../../infra/clickhouse/sql-fragments.ts";
import type { ClientRetention } from "../../sinks/archive/purge.ts";
import { keptSince } from "../../sinks/archive/retention.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { isOfMoney, isScrubbedEvent, scrubbedEvent } from "./scrub.ts";

const DAY_MS = 86_400_000;
/** How long events are kept without consent to extended retention (bit 6, 0x40). */
const SHORT_DAYS = 90;
/** They are named in the statement, whose size is limited. The next run takes the others. */
const MOST_DEVICES = 5_000;
/** Of no event the store keeps its device in `device_events` for longer than 90 days. */
const INDEX_MONTHS = 3;
/** The statements list all clients. */
const settings = { max_query_size: "4000000", os_thread_priority: "10" };

export interface EventsPurge {
  /** Rows that the store is deleting now. */
  readonly rows: number;
  /** False: more devices than one statement names refused extended retention. */
  readonly isDone: boolean;
}

/**
 * Counts what is due and tells the store to delete it, which goes on after the return. Returns
 * "busy" while a former purge goes on. By whole days of `ts`, in UTC. Throws the server's error.
 */
export const purgeEvents = async (
  clickhouse: Clickhouse,
  clients: readonly ClientRetention[],
  now: UnixMs,
): Promise<EventsPurge | "busy"> => {
  if (clients.length === 0) return { rows: 0, isDone: true };
  const going = await rowsOf(
    clickhouse,
    "select 1 from system.mutations where database = currentDatabase() and table = 'events' and not is_done limit 1",
  );
  if (going.length > 0) return "busy";
  const short = `client_id in (${listOf(clients)}) and ${isBefore(startOfDay(now - SHORT_DAYS * DAY_MS))}`;
  const devices = await rowsOf<readonly [number, string]>(
    clickhouse,
    `select distinct client_id, did from events where ${isOfVisit} and ${short} and bitTest(consent, 6)
      and (client_id, did) in (select client_id, did from consents where bitTest(withheld, 6)) limit ${MOST_DEVICES}`,
  );
  const due = `${isOfVisit} and (${[...expired(clients, now), `${short} and ${isRefused(devices)}`].join(" or ")})`;
  const rows = await changed(clickhouse, "delete", due);
  const brief = clients.filter(({ months }) => months < INDEX_MONTHS);
  if (brief.length > 0) await changed(clickhouse, "delete", expired(brief, now).join(" or "), "device_events");
  return { rows, isDone: devices.length < MOST_DEVICES };
};

/**
 * Counts the rows of money that are older than their client keeps its events, and tells the store
 * to take their visitor out of them, which goes on after the return. Keys by which a decision finds
 * the line of an event stay. Throws the server's error.
 */
export const scrubEvents = async (
  clickhouse: Clickhouse,
  clients: readonly ClientRetention[],
  now: UnixMs,
): Promise<number> => {
  if (clients.length === 0) return 0;
  const due = `${isOfMoney} and not ${isScrubbedEvent} and (${expired(clients, now).join(" or ")})`;
  return changed(clickhouse, `update ${scrubbedEvent.join(", ")}`, due);
};

/** Returns the number of rows that the store is changing now. */
const changed = async (
  clickhouse: Clickhouse,
  change: string,
  due: string,
  table: "events" | "device_events" = "events",
): Promise<number> => {
  const [found] = await rowsOf<readonly [string]>(clickhouse, `select count() from ${table} where ${due}`);
  const rows = Number(found![0]);
  if (rows > 0)
    await clickhouse.command({ query: `alter table ${table} ${change} where ${due}`, clickhouse_settings: settings });
  return rows;
};

const rowsOf = async <Row extends readonly unknown[]>(
  clickhouse: Clickhouse,
  query: string,
): Promise<readonly Row[]> => {
  const answer = await clickhouse.query({ query, format: "JSONCompactEachRow", clickhouse_settings: settings });
  return answer.json<Row>();
};

export const startOfDay = (at: UnixMs): UnixMs => Math.floor(at / DAY_MS) * DAY_MS;
const isBefore = (at: UnixMs): string => `ts < fromUnixTimestamp64Milli(${at})`;
const listOf = (clients: readonly ClientRetention[]): string => clients.map(({ clientId }) => clientId).join(", ");
const isOfVisit = `not ${isOfMoney}`;

/** One condition for each length of retention. */
const expired = (clients: readonly ClientRetention[], now: UnixMs): readonly string[] =>
  [...new Set(clients.map(({ months }) => months))].map((months) => {
    const alike = clients.filter((client) => client.months === months);
    return `client_id in (${listOf(alike)}) and ${isBefore(startOfDay(keptSince(now, months)))}`;
  });

/** The event came without the bit, or the latest choice of its device refuses it. */
const isRefused = (devices: readonly (readonly [number, string])[]): string => {
  const given = devices.map(([client, did]) => `(${client}, ${literal(did).expression})`);
  const isOfThem = given.length === 0 ? "" : ` or (client_id, did) in (${given.join(", ")})`;
  return `(not bitTest(consent, 6)${isOfThem})`;
};
