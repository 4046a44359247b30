// What was received in a window, and what shaped the memory of its devices before: the questions
// of a reprocess about stored events.
import { PERSONAL_FORM } from "../../domain/personal/personal-form.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { pickColumns } from "../../infra/clickhouse/columns.ts";
import {
  bind,
  type ClientScope,
  type Condition,
  cond,
  count,
  readRows,
  text,
  unixMs,
} from "../../infra/clickhouse/query.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { columnsOfRecords, eventOf } from "./generated.ts";
import { type LatestRow, partColumns, rowParts } from "./latest-rows.ts";
import { eventReads } from "./table.ts";

export interface ReceiptWindow {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
}
const isReceivedIn = ({ from, to }: ReceiptWindow): Condition =>
  cond`received_at >= fromUnixTimestamp64Milli(${bind("Int64", from)})
    and received_at < fromUnixTimestamp64Milli(${bind("Int64", to)})`;

/** The number of events, each once. */
export const countReceived = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  window: ReceiptWindow,
): Promise<number> => {
  const [row] = await readRows(clickhouse, scope, {
    from: "events",
    columns: { events: count("uniq(event_id)") },
    where: [isReceivedIn(window)],
  });
  return row!.events;
};

/** At most `limit` ids of events of the window that were stored from `since` on. */
export const receivedAndStoredAfter = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  window: ReceiptWindow,
  { since, limit }: { readonly since: UnixMs; readonly limit: number },
): Promise<readonly string[]> => {
  const rows = await readRows(clickhouse, scope, {
    from: "events",
    columns: { event_id: text("event_id") },
    where: [isReceivedIn(window), cond`stored_at >= fromUnixTimestamp64Milli(${bind("Int64", since)})`],
    groupBy: ["event_id"],
    limit,
  });
  return rows.map(({ event_id }) => event_id);
};

/** An event with what stages found out about it. */
export interface ShapingRow extends LatestRow {
  readonly event: EventReceived;
  readonly received_at: UnixMs;
}

/** Devices in one statement, about 50 kB of text. */
const DEVICES_AT_ONCE = 1_000;
const EVENTS_AT_ONCE = 1_000;
/** A journey keeps 5 clicks. A device with more than this since the beginning is no visitor. */
const MOST_OF_A_DEVICE = 100;
const HOUR_S = 3_600;

interface DeviceQuestion {
  readonly devices: readonly string[];
  readonly since: UnixMs;
  readonly clicksOnly: boolean;
}

/**
 * The newest events of each device that shape what stages remember of it: of the sender's time
 * `since` and later. In no order. What was erased is not there.
 */
export const shapingEvents = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  { devices, since, clicksOnly }: DeviceQuestion,
): Promise<readonly ShapingRow[]> => {
  const found: ShapingRow[] = [];
  for (let n = 0; n < devices.length; n += DEVICES_AT_ONCE) {
    const some = devices.slice(n, n + DEVICES_AT_ONCE);
    const named = await readRows(clickhouse, scope, {
      from: "device_events",
      columns: { did: text("did"), event_id: text("event_id"), ts: unixMs("ts") },
      where: [
        cond`did in ${bind("Array(String)", some)}`,
        cond`ts >= fromUnixTimestamp64Milli(${bind("Int64", since)})`,
        ...(clicksOnly ? [cond`is_click`] : []),
      ],
      orderBy: ["ts desc", "event_id"],
      limitBy: { most: MOST_OF_A_DEVICE, names: ["did"] },
    });
    for (let m = 0; m < named.length; m += EVENTS_AT_ONCE)
      found.push(...(await rowsOf(clickhouse, scope, named.slice(m, m + EVENTS_AT_ONCE))));
  }
  return found;
};

/** The rows that count. Their hours and ids are the key of the table. */
const rowsOf = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  named: readonly { readonly event_id: string; readonly ts: UnixMs }[],
): Promise<readonly ShapingRow[]> => {
  const hours = [...new Set(named.map(({ ts }) => Math.floor(ts / 1_000 / HOUR_S) * HOUR_S))];
  const rows = await readRows(clickhouse, scope, {
    from: "events",
    columns: pickColumns(eventReads, ...partColumns, ...columnsOfRecords.event, "received_at"),
    where: [
      cond`toStartOfHour(ts) in ${bind("Array(DateTime('UTC'))", hours)}`,
      cond`event_id in ${bind(
        "Array(UUID)",
        named.map(({ event_id }) => event_id),
      )}`,
    ],
    // The row that counts comes last, because merges may not have dropped the older ones yet.
    orderBy: ["rank"],
  });
  return [...new Map(rows.map((row) => [row.event_id, row])).values()].map((row) => ({
    ...rowParts(row),
    received_at: row.received_at,
    event: { ...eventOf(row), personal_form: PERSONAL_FORM, by_partner: null },
  }));
};
