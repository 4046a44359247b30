// Finds the line that an event made or is a copy of, under the key by which settle remembers it: an
// order id, or the key of a lead, an install or a custom sale.
import type { Pool, PoolClient } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { orderKeyOf } from "../../../processors/attribute/claims.ts";
import { orderFrom } from "../../../processors/settle/memory.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import { newestOfEvents, type StoredEvent } from "../../../sinks/analytics/reads.ts";
import { type EventName, eventNames } from "./event-names.ts";

export interface LineOfEvent {
  readonly order_key: string;
  /** The first copy, with the fields that identify the line. */
  readonly event: NamedEvent;
  /** The requested event if it names no product; it may then be a copy of several lines. */
  readonly copy: NamedEvent | null;
}
type NamedEvent = Pick<EventReceived, "event_id" | "t"> & Partial<EventReceived>;
export interface FoundLine extends LineOfEvent {
  readonly client_id: number;
}
interface Stores {
  readonly clickhouse: Clickhouse;
  readonly tx: PoolClient;
}

/** The most names that are looked up at once; each event has two names for each client. */
const NAMES_AT_ONCE = 5_000;

const textOf = ({ client_id, event_id }: EventName): string => `${client_id}:${event_id}`;

/**
 * A key may exist without a line, where refunds wait for an event that is stored under another key.
 */
const hasLine = (key: string, stored: Buffer): boolean =>
  orderFrom(key, (one) => (one === key ? unpacked(stored) : undefined))!.lines.length > 0;

const named = ({ event_id, sender_event_id, t, custom_name, order_id, product_id, did, ...keys }: StoredEvent) => ({
  ...{ event_id, sender_event_id, t, custom_name, order_id, product_id, did, source: keys.source },
  ...{ dedup_key: keys.dedup_key, lead_key: keys.lead_key, sale_hash: keys.sale_hash },
});

/**
 * Accepts the sender's id or the log's id. Undefined: no such event is stored, or settle has no
 * line for it, e.g. for a page view.
 */
export const lineOfEvent = async (
  { clickhouse, pool }: { readonly clickhouse: Clickhouse; readonly pool: Pool },
  clientId: number,
  id: string,
): Promise<LineOfEvent | undefined> => {
  const [found] = await transaction(pool, [clientId], (tx) => linesOfEvents({ clickhouse, tx }, [clientId], [id]), {
    isReadOnly: true,
  });
  return found?.[0];
};

/**
 * Returns for each id the lines of every client that has such an event, in the order of the ids; an
 * unknown id has none. Ids may repeat.
 */
export const linesOfEvents = async (
  stores: Stores,
  clientIds: readonly number[],
  ids: readonly string[],
): Promise<readonly (readonly FoundLine[])[]> => {
  const found: (readonly FoundLine[])[] = [];
  if (clientIds.length === 0) return ids.map(() => []);
  const size = Math.max(1, Math.floor(NAMES_AT_ONCE / (2 * clientIds.length)));
  for (let n = 0; n < ids.length; n += size) found.push(...(await some(stores, clientIds, ids.slice(n, n + size))));
  return found;
};

const some = async (
  { clickhouse, tx }: Stores,
  clientIds: readonly number[],
  ids: readonly string[],
): Promise<readonly (readonly FoundLine[])[]> => {
  const names = ids.map((id) => eventNames(id, clientIds));
  const newest = async (events: readonly EventName[]): Promise<ReadonlyMap<string, StoredEvent>> => {
    if (events.length === 0) return new Map();
    const eventIds = [...new Set(events.map(({ event_id }) => event_id))];
    const scope = scopeOf(...new Set(events.map(({ client_id }) => client_id)));
    return new Map((await newestOfEvents(clickhouse, scope, eventIds)).map((row) => [textOf(row), row]));
  };
  const stored = await newest(names.flat());
  // The sender's id has precedence over the log's.
  const meant = names.map((own) =>
    clientIds.flatMap((clientId) => {
      const name = own.find((one) => one.client_id === clientId && stored.has(textOf(one)));
      return name === undefined ? [] : [stored.get(textOf(name))!];
    }),
  );
  const copies = meant
    .flat()
    .flatMap(({ client_id, merged_into }) => (merged_into === null ? [] : [{ client_id, event_id: merged_into }]));
  const firsts = await newest(copies);
  const lines = meant.map((events) =>
    events.flatMap((event) => {
      const { client_id, merged_into } = event;
      const first = merged_into === null ? event : firsts.get(textOf({ client_id, event_id: merged_into }));
      const isOfOrder = merged_into !== null && event.order_id !== null && event.product_id === null;
      return first === undefined ? [] : [{ client_id, event: named(first), copy: isOfOrder ? named(event) : null }];
    }),
  );
  const keys = await rememberedKeys(tx, lines.flat());
  return lines.map((of) =>
    of.flatMap((line) => {
      const order_key = keyAmong(keys, line.client_id, line.event);
      return order_key === undefined ? [] : [{ ...line, order_key }];
    }),
  );
};

type EventNames = ReturnType<typeof named>;
interface LineNamed {
  readonly client_id: number;
  readonly event: EventNames;
}

/**
 * A custom event that came before its order counted has its own key, in addition to that order's.
 */
const keysOf = (event: EventNames): readonly [own: string, alone: string] => [
  orderKeyOf(event as unknown as EventReceived),
  `e:${event.event_id}`,
];

const rememberedKeys = async (tx: PoolClient, events: readonly LineNamed[]): Promise<ReadonlyMap<string, Buffer>> => {
  const asked = [
    ...new Set(events.flatMap(({ client_id, event }) => keysOf(event).map((key) => `${client_id}:${key}`))),
  ];
  const { rows } = await tx.query<{ key: string; value: Buffer }>(
    sql`select key, value from memory_state where stage = 'settle' and key = any (${asked})`,
  );
  return new Map(rows.map(({ key, value }) => [key, value]));
};

const keyAmong = (known: ReadonlyMap<string, Buffer>, clientId: number, event: EventNames): string | undefined => {
  const [own, alone] = keysOf(event);
  if (!known.has(`${clientId}:${own}`)) return known.has(`${clientId}:${alone}`) ? alone : undefined;
  const value = known.get(`${clientId}:${alone}`);
  return value !== undefined && own !== alone && hasLine(`${clientId}:${alone}`, value) ? alone : own;
};
