// Finds the line that an event made or is a copy of, under the key by which settle remembers it: an
// order id, or the key of a lead, an install or a custom sale.
import type { Pool, PoolClient } from "pg";
import { refundedIdIn } from "../../../domain/refunds.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { keysOfEvent } from "../../../processors/attribute/claims.ts";
import { isInParts, orderFrom } from "../../../processors/settle/memory.ts";
import { UNDONE } from "../../../processors/settle/undo/undone-row.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import { eventsOfPages, newestOfEvents, type StoredEvent } from "../../../sinks/analytics/reads.ts";
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

interface EventKinds {
  /** Also refunds, under the key where settle remembers them. */
  readonly withRefunds: boolean;
}

/** The most names that are looked up at once; each event has two names for each client. */
const NAMES_AT_ONCE = 5_000;

const textOf = ({ client_id, event_id }: EventName): string => `${client_id}:${event_id}`;

/**
 * A key may exist without the line of the event: refunds wait there, or events of other senders
 * have the same one. A large order is not read for it. A refund made no line, so it is found only
 * if refunds are meant too, and hides no sale of its sender's id.
 */
const hasLineOf = (
  event: EventNames,
  key: string,
  stored: Buffer | undefined,
  { withRefunds }: EventKinds,
): boolean => {
  if (stored === undefined || (event.t === "refund" && !withRefunds)) return false;
  const head = unpacked(stored);
  const { lines, refunds } = orderFrom(key, (one) => (one === key ? head : undefined))!;
  return isInParts(head) || [...lines, ...refunds].some(({ event_id }) => event_id === event.event_id);
};

/** Of the props of a refund only the event that it names is passed on. */
const identifyingProps = (event: Pick<StoredEvent, "t" | "props">): string => {
  const refunded_event_id = refundedIdIn(event);
  return refunded_event_id === null ? "{}" : JSON.stringify({ refunded_event_id });
};

/** The fields of an event that say to which line it belongs. */
export const named = ({
  event_id,
  sender_event_id,
  t,
  custom_name,
  order_id,
  product_id,
  did,
  ...keys
}: StoredEvent) => ({
  ...{ event_id, sender_event_id, t, custom_name, order_id, product_id, did, source: keys.source },
  ...{ client_id: keys.client_id, client_side: keys.client_side, warnings: keys.warnings },
  props: identifyingProps({ t, props: keys.props }),
  ...{ dedup_key: keys.dedup_key, lead_key: keys.lead_key, sale_hash: keys.sale_hash },
});

/**
 * Accepts senders' ids or the log's. Undefined: no such event is stored, or settle has no line for
 * it, e.g. for a page view.
 */
export const linesOfClient = async (
  { clickhouse, pool }: { readonly clickhouse: Clickhouse; readonly pool: Pool },
  clientId: number,
  ids: readonly string[],
): Promise<readonly (LineOfEvent | undefined)[]> => {
  const found = await transaction(pool, [clientId], (tx) => linesOfEvents({ clickhouse, tx }, [clientId], ids), {
    isReadOnly: true,
  });
  return found.map(([line]) => line);
};

/**
 * Returns for each id the lines of every client that has such an event, in the order of the ids; an
 * unknown id has none. Ids may repeat.
 */
export const linesOfEvents = async (
  stores: Stores,
  clientIds: readonly number[],
  ids: readonly string[],
  kinds: EventKinds = { withRefunds: false },
): Promise<readonly (readonly FoundLine[])[]> => {
  const found: (readonly FoundLine[])[] = [];
  if (clientIds.length === 0) return ids.map(() => []);
  const size = Math.max(1, Math.floor(NAMES_AT_ONCE / (2 * clientIds.length)));
  for (let n = 0; n < ids.length; n += size)
    found.push(...(await some(stores, clientIds, ids.slice(n, n + size), kinds)));
  return found;
};

const some = async (
  stores: Stores,
  clientIds: readonly number[],
  ids: readonly string[],
  kinds: EventKinds,
): Promise<readonly (readonly FoundLine[])[]> => {
  const computed = await linesNamed(
    stores,
    ids.map((id) => eventNames(id, clientIds)),
    kinds,
  );
  const lacking = [...ids.entries()].flatMap(([n, id]) => {
    const clients = clientIds.filter((clientId) => !computed[n]!.some(({ client_id }) => client_id === clientId));
    return clients.length === 0 ? [] : [{ n, id, clients }];
  });
  if (lacking.length === 0) return computed;
  // Only few are looked up: a page's own conversions by their sender's id, and what has no line.
  const ofPages = await eventsOfPages(
    stores.clickhouse,
    scopeOf(...new Set(lacking.flatMap(({ clients }) => clients))),
    [...new Set(lacking.map(({ id }) => id))],
  );
  const looked = await linesNamed(
    stores,
    lacking.map(({ id, clients }) =>
      ofPages.filter(({ client_id, sender_event_id }) => sender_event_id === id && clients.includes(client_id)),
    ),
    kinds,
  );
  const added = new Map(lacking.map(({ n }, m) => [n, looked[m]!]));
  return computed.map((lines, n) => {
    const all = [...lines, ...(added.get(n) ?? [])];
    return clientIds.flatMap((clientId) => all.find(({ client_id }) => client_id === clientId) ?? []);
  });
};

/** For each list of names, in which the sender's id comes first, the first line of each client. */
const linesNamed = async (
  { clickhouse, tx }: Stores,
  names: readonly (readonly EventName[])[],
  kinds: EventKinds,
): Promise<readonly (readonly FoundLine[])[]> => {
  const newest = async (events: readonly EventName[]): Promise<ReadonlyMap<string, StoredEvent>> => {
    if (events.length === 0) return new Map();
    const eventIds = [...new Set(events.map(({ event_id }) => event_id))];
    const scope = scopeOf(...new Set(events.map(({ client_id }) => client_id)));
    return new Map((await newestOfEvents(clickhouse, scope, eventIds)).map((row) => [textOf(row), row]));
  };
  const stored = await newest(names.flat());
  // A row of an undone import is of no line, whatever it was a copy of.
  const meant = names.map((own) =>
    own.flatMap((name) => stored.get(textOf(name)) ?? []).filter(({ credit_reason }) => credit_reason !== UNDONE),
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
  return lines.map((of) => {
    const found = of.flatMap((line) => {
      const order_key = keyAmong(keys, line, kinds);
      return order_key === undefined ? [] : [{ ...line, order_key }];
    });
    return found.filter(({ client_id }, n) => found.findIndex((one) => one.client_id === client_id) === n);
  });
};

type EventNames = ReturnType<typeof named>;
interface LineNamed {
  readonly client_id: number;
  readonly event: EventNames;
}

/**
 * A custom event that came before its order counted has its own key, in addition to that order's.
 */
export const keysOf = (event: EventNames): readonly string[] => [
  `e:${event.event_id}`,
  ...keysOfEvent(event as unknown as EventReceived),
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

const keyAmong = (
  known: ReadonlyMap<string, Buffer>,
  { client_id, event }: LineNamed,
  kinds: EventKinds,
): string | undefined =>
  keysOf(event).find((key) => hasLineOf(event, `${client_id}:${key}`, known.get(`${client_id}:${key}`), kinds));
