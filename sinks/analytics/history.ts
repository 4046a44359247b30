// Reads the stored events of a time window in order, complete with all fields. Trials run a rule on
// them.

import { SCRUBBED } from "../../domain/personal/erased-mark.ts";
import { PERSONAL_FORM } from "../../domain/personal/personal-form.ts";
import type { Condition as RuleCondition } from "../../domain/reference/reference.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { pickColumns } from "../../infra/clickhouse/columns.ts";
import {
  bind,
  type ClientScope,
  type Condition,
  cond,
  readRows,
  scopeOf,
  text,
  unixMs,
} from "../../infra/clickhouse/query.ts";
import { piece, plainPiece } from "../../infra/clickhouse/sql-fragments.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { matching } from "./condition-sql.ts";
import { columnsOfRecords, eventOf } from "./generated.ts";
import { type LatestRow, partColumns, rowParts } from "./latest-rows.ts";
import { eventReads } from "./table.ts";

export interface HistoryWindow {
  readonly from: UnixMs;
  /** Exclusive. */
  readonly to: UnixMs;
  /** Undefined means all types. The type of a custom event is its own name. */
  readonly event_types?: readonly string[] | undefined;
}
/** The place of an event in the history, which is ordered by time and then by id. */
export interface HistoryPlace {
  readonly ts: UnixMs;
  readonly event_id: string;
}
export interface StoredEvent extends LatestRow {
  readonly event: EventReceived;
  readonly received_at: UnixMs;
}

interface HistoryQuestion {
  readonly when: RuleCondition;
  readonly rule_id: number;
  /** Reading starts behind this event. */
  readonly after: HistoryPlace | undefined;
  /** Reading ends with this event. */
  readonly last: HistoryPlace;
  readonly limit: number;
}
/** The stored events of a client that count, without refunds, by time and then by id. */
export interface History {
  /**
   * The times of the oldest events in the window, at most `most`, and the place of the last one.
   */
  readonly end: (
    clientId: number,
    window: HistoryWindow,
    most: number,
  ) => Promise<{ readonly times: readonly UnixMs[]; readonly last: HistoryPlace | undefined; readonly isCut: boolean }>;
  /** The events that meet the condition or are credited to the rule. */
  readonly matching: (
    clientId: number,
    window: HistoryWindow,
    asked: HistoryQuestion,
  ) => Promise<readonly StoredEvent[]>;
}

export const openHistory = (clickhouse: Clickhouse): History => ({
  end: (clientId, window, most) => historyEnd(clickhouse, scopeOf(clientId), window, most),
  matching: (clientId, window, asked) => matchingHistory(clickhouse, scopeOf(clientId), window, asked),
});

/** Refunds are left out: who is credited for a refund follows from its sale. */
const inWindow = ({ from, to, event_types }: HistoryWindow): readonly Condition[] => [
  cond`ts >= fromUnixTimestamp64Milli(${bind("Int64", from)}) and ts < fromUnixTimestamp64Milli(${bind("Int64", to)})`,
  cond`t != 'refund'`,
  // Of a scrubbed row nothing is left to decide by: its credit stays as it was decided.
  cond`not startsWith(did, ${bind("String", SCRUBBED)})`,
  ...(event_types === undefined ? [] : [cond`coalesce(custom_name, t) in ${bind("Array(String)", event_types)}`]),
];
const ORDER = ["ts", "toString(event_id)"];
const compared = (mark: "<=" | ">", { ts, event_id }: HistoryPlace): Condition => {
  const place = piece`(fromUnixTimestamp64Milli(${bind("Int64", ts)}), ${bind("String", event_id)})`;
  return piece`(ts, toString(event_id)) ${plainPiece(mark)} ${place}`;
};

const DAY_MS = 86_400_000;
/** The factor by which the window grows when it has too few events. */
const WIDER = 4;

/**
 * Starts with one day, because a busy client has `most` events within hours. So no more rows are
 * sorted than necessary.
 */
const historyEnd = async (clickhouse: Clickhouse, scope: ClientScope, window: HistoryWindow, most: number) => {
  for (let stretch = DAY_MS; ; stretch *= WIDER) {
    const to = Math.min(window.to, window.from + stretch);
    const rows = await readRows(clickhouse, scope, {
      from: "events_decided",
      columns: { ts: unixMs("ts"), event_id: text("event_id") },
      where: inWindow({ ...window, to }),
      orderBy: ORDER,
      limit: most + 1,
    });
    const isCut = rows.length > most;
    if (!isCut && to < window.to) continue;
    const counted = rows.slice(0, most);
    return { times: counted.map(({ ts }) => ts), last: counted.at(-1), isCut };
  }
};

const matchingHistory = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  window: HistoryWindow,
  { when, rule_id, after, last, limit }: HistoryQuestion,
): Promise<readonly StoredEvent[]> => {
  const met = matching(when);
  // The condition on the time stands here as well, because events are stored in order of time.
  const pages = { ...window, from: Math.max(window.from, after?.ts ?? 0), to: Math.min(window.to, last.ts + 1) };
  const rows = await readRows(clickhouse, scope, {
    from: "events_decided",
    columns: pickColumns(eventReads, ...partColumns, ...columnsOfRecords.event, "received_at"),
    where: [
      ...inWindow(pages),
      compared("<=", last),
      ...(after === undefined ? [] : [compared(">", after)]),
      piece`${met} or rule_id = ${bind("UInt32", rule_id)}`,
    ],
    orderBy: ORDER,
    limit,
  });
  return rows.map((row) => ({
    ...rowParts(row),
    received_at: row.received_at,
    event: { ...eventOf(row), personal_form: PERSONAL_FORM, by_partner: null },
  }));
};
