// The laws once nothing is under way: each is counted from the data (log and tables) against the
// journal of the sender, never from metrics.
import { expect } from "vitest";
import type { Claim, Conversion, EventAttributed, EventReceived, LedgerEntry } from "../../schemas/generated.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { Journal, SentEvent } from "./e2e-load.ts";
import { type Product, readable } from "./e2e-product.ts";

/** Ten percent of an amount such as 12.34, rounded half to even, in cents. */
const tenthOf = (revenue: string): bigint => {
  const cents = BigInt(revenue.replace(".", ""));
  const [tenth, rest] = [cents / 10n, cents % 10n];
  return rest > 5n || (rest === 5n && tenth % 2n === 1n) ? tenth + 1n : tenth;
};

/** One id has one content, however often it was produced (R11). */
const expectOneContent = (events: readonly Recorded<unknown>[]): void => {
  const contents = new Map<string, string>();
  for (const { id, data } of events) {
    const content = JSON.stringify(data, (_, part) => (typeof part === "bigint" ? `${part}` : part));
    expect(contents.get(id) ?? content).toBe(content);
    contents.set(id, content);
  }
};

export interface Held {
  readonly events: number;
  readonly records: number;
  readonly duplicates: number;
  readonly unknown: number;
  readonly orders: number;
  readonly commission: bigint;
}

/**
 * Checks C2, C3, I2, M1, M10, R11 and the amounts for everything that was sent under `run`. Returns
 * the counts for the output.
 */
export const expectLaws = async (
  product: Product,
  run: string,
  journal: Journal,
  sent: ReadonlyMap<string, SentEvent>,
): Promise<Held> => {
  const [{ cid: clientId }] = [...sent.values()] as [SentEvent];
  const own = `client_id = ${clientId}`;
  const isOwn = ({ key }: { readonly key: string }): boolean => key.startsWith(`${clientId}:`);
  const outcomes = journal.outcomes();
  const ok = [...outcomes].filter(([, outcome]) => outcome === "ok").map(([id]) => id);
  expect(ok.length).toBeGreaterThan(0);

  // C2, I2: every acknowledged event is stored once. Other stored events are only those that were
  // sent without an answer.
  const stored = await product.clickhouse<{ id: string; rows: number; t: string; order_id: string | null }>(
    `select sender_event_id as id, toUInt32(count()) as rows, any(t) as t, any(order_id) as order_id from events final
     where ${own} and startsWith(sender_event_id, '${run}-') group by id`,
  );
  const storedIds = new Set(stored.map(({ id }) => id));
  expect({ lost: ok.filter((id) => !storedIds.has(id)) }).toEqual({ lost: [] });
  expect({ twice: stored.filter(({ rows }) => rows !== 1) }).toEqual({ twice: [] });
  expect({
    phantoms: [...storedIds].filter((id) => !["ok", "unknown"].includes(outcomes.get(id) ?? "never sent")),
  }).toEqual({
    phantoms: [],
  });

  // C3: records of events.raw = stored + duplicates + dead letters + dropped. Here nothing is
  // dropped, and only unreadable records become dead letters.
  const records = await product.read<EventReceived>("events.raw");
  const events = records.flatMap(readable);
  const unreadable = records.filter((record) => readable(record).length === 0);
  const raw = events.filter((event) => isOwn(event) && event.data.sender_event_id?.startsWith(`${run}-`));
  const distinct = new Set(raw.map(({ id }) => id));
  expect({ records: raw.length, stored: stored.length }).toEqual({ records: raw.length, stored: distinct.size });
  const letters = (await product.read("s2s.dlq")).filter(
    ({ headers }) => headers[letterHeaders.topic] === "events.raw",
  );
  // Each has a letter that names its place, and no readable record has one.
  const dead = letters.map(({ headers }) => `${headers[letterHeaders.partition]}@${headers[letterHeaders.offset]}`);
  expect([...new Set(dead)].sort()).toEqual(unreadable.map(({ partition, offset }) => `${partition}@${offset}`).sort());

  for (const topic of ["claims", "conversions", "ledger.entries"])
    expectOneContent((await product.events<Claim | Conversion | LedgerEntry>(topic)).filter(isOwn));
  const versions = (await product.events<EventAttributed>("events.attributed"))
    .filter((event) => isOwn(event) && event.data.event.sender_event_id?.startsWith(`${run}-`))
    .map(({ data }) => data.version);
  expect(new Set(versions)).toEqual(new Set([1]));

  // The money: one commission an order, however many copies came, computed here from the sent
  // events.
  const orders = new Map<string, bigint>();
  for (const id of storedIds) {
    const { order_id: order, revenue } = sent.get(id)!.props;
    if (order !== undefined) orders.set(order, tenthOf(revenue!));
  }
  // Updates the statistics, so that the queries below do not wait for autovacuum to do it.
  await product.rows("analyze conversions, ledger_entries, ledger_lines");
  const booked = await product.rows<{ order_id: string; entries: number; amount: string }>(
    `select order_id, count(*)::int as entries, sum(entry.amount_minor)::text as amount
     from conversions join ledger_entries entry using (client_id, conversion_id)
     where ${own} and order_id like '${run}-%' group by order_id`,
  );
  expect({ twice: booked.filter(({ entries }) => entries !== 1) }).toEqual({ twice: [] });
  expect(new Map(booked.map(({ order_id: order, amount }) => [order, BigInt(amount)]))).toEqual(orders);

  // M10: every conversion has exactly one outcome. M1: bookings balance, in each entry and in
  // total.
  const [laws] = await product.rows(`select
    (select count(*)::int from conversions where ${own} and not exists (select from ledger_entries entry
      where entry.client_id = conversions.client_id and entry.conversion_id = conversions.conversion_id
        and entry.kind in ('earned', 'none'))) as unpaid,
    (select count(*)::int from (select 1 from ledger_entries where ${own} and kind in ('earned', 'none')
      group by client_id, conversion_id having count(*) > 1) twice) as twice,
    (select count(*)::int from (select 1 from ledger_lines where ${own}
      group by client_id, entry_id, currency having sum(amount_minor) <> 0) odd) as unbalanced,
    (select coalesce(sum(amount_minor), 0)::int from ledger_lines where ${own}) as balance`);
  expect(laws).toEqual({ unpaid: 0, twice: 0, unbalanced: 0, balance: 0 });
  return {
    events: stored.length,
    records: raw.length,
    duplicates: raw.length - distinct.size,
    unknown: [...outcomes.values()].filter((outcome) => outcome === "unknown").length,
    orders: orders.size,
    commission: [...orders.values()].reduce((sum, cents) => sum + cents, 0n),
  };
};

/** The records of a client that a topic holds more than once: their count by id. */
export const repeatedIn = async (product: Product, topic: string, clientId: number): Promise<number> => {
  const records = (await product.read(topic)).filter(({ key }) => String(key).startsWith(`${clientId}:`));
  const ids = records.map(({ event }) => event().id);
  return ids.length - new Set(ids).size;
};
