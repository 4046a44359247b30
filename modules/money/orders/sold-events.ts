// Reads fields of sold events that only the analytics store has, and Postgres lacks.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { pickColumns } from "../../../infra/clickhouse/columns.ts";
import { bind, type Condition, cond, readRows, scopeOf } from "../../../infra/clickhouse/query.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import { within as withTimeout } from "../../../infra/runtime/timing/time-limit.ts";
import type { Candidate } from "../../../schemas/generated.ts";
import { between } from "../../../sinks/analytics/reads.ts";
import { eventReads } from "../../../sinks/analytics/table.ts";
import type { UnixMs } from "../../../stream/flow.ts";

interface SoldEventId {
  readonly client_id: number;
  readonly event_id: string;
}
export interface SoldEventName extends SoldEventId {
  /** The time of the sale in reports; undefined: any time. */
  readonly occurred_at?: UnixMs | undefined;
}
export interface SoldEvent extends SoldEventId {
  readonly source: string;
  readonly received_at: UnixMs;
  readonly click_id: string | null;
  readonly credit_method: string | null;
  readonly fraud_score: number;
  readonly fraud_band: string;
  readonly candidates: readonly Candidate[];
}
const columns = pickColumns(
  eventReads,
  ...(["client_id", "event_id", "source", "received_at", "click_id", "credit_method"] as const),
  ...(["fraud_score", "fraud_band", "candidates"] as const),
);
const keyOf = (clientId: number, eventId: string): string => `${clientId}:${eventId}`;

/**
 * The longest wait. A slow answer is left out, because these fields are the minor part of a sale.
 */
const WITHIN_MS = 1_000;
const LATE = "the events of the sales are not known in time";

/** Does the same as soldEvents, but returns nothing if the store does not answer in time. */
export const soldEventsOrNone = async (
  clickhouse: Clickhouse,
  events: readonly SoldEventName[],
): Promise<ReadonlyMap<string, SoldEvent>> => {
  const asked = soldEvents(clickhouse, events);
  try {
    return await withTimeout(WITHIN_MS, asked, LATE);
  } catch (error) {
    if ((error as Error).message !== LATE && classify(error) !== "transient") throw error;
    return new Map();
  }
};

/** How far a sender's time may lie after the receipt. */
const AHEAD_MS = 24 * 3_600_000;
const timesOf = (events: readonly SoldEventName[]): readonly Condition[] => {
  const times = events.flatMap(({ occurred_at }) => occurred_at ?? []);
  if (times.length < events.length) return [];
  return [between({ first: Math.min(...times), last: Math.max(...times) + AHEAD_MS })];
};

/**
 * The valid version of each event by `soldEvent`, including copies. Nearly all have their sender's
 * time, so the few whose money was dated otherwise are asked for again, at any time.
 */
export const soldEvents = async (
  clickhouse: Clickhouse,
  events: readonly SoldEventName[],
): Promise<ReadonlyMap<string, SoldEvent>> => {
  const found = await soldEventsAt(clickhouse, events);
  const others = events.filter((one) => one.occurred_at !== undefined && soldEvent(found, one) === undefined);
  if (others.length === 0) return found;
  const atAnyTime = others.map(({ client_id, event_id }) => ({ client_id, event_id }));
  return new Map([...found, ...(await soldEventsAt(clickhouse, atAnyTime))]);
};

const soldEventsAt = async (
  clickhouse: Clickhouse,
  events: readonly SoldEventName[],
): Promise<ReadonlyMap<string, SoldEvent>> => {
  if (events.length === 0) return new Map();
  const scope = scopeOf(...new Set(events.map(({ client_id }) => client_id)));
  const ids = [...new Set(events.map(({ event_id }) => event_id))];
  const rows = await readRows(clickhouse, scope, {
    from: "events",
    columns,
    where: [cond`event_id in ${bind("Array(UUID)", ids)}`, ...timesOf(events)],
    // The valid row sorts last, because merges may not have dropped the older rows yet.
    orderBy: ["rank", "stored_at"],
  });
  return new Map(
    rows.map(({ candidates, ...row }) => [
      keyOf(row.client_id, row.event_id),
      { ...row, candidates: JSON.parse(candidates) as readonly Candidate[] },
    ]),
  );
};

export const soldEvent = (
  events: ReadonlyMap<string, SoldEvent>,
  { client_id, event_id }: SoldEventId,
): SoldEvent | undefined => events.get(keyOf(client_id, event_id));
