// Erases a subject from Postgres: rows of money lose what names a person, other rows go. Leads,
// identity edges, recordings and payloads go with the entry in the list (../suppressions.ts).
import type { Pool, PoolClient } from "pg";
import { leadIdOf } from "../../../domain/ids.ts";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import { isFreeAppEvent, isScrubbed, scrubbedName } from "../scrub.ts";
import type { FoundEvent } from "./events.ts";
import { type ErasureTarget, peopleOf } from "./target.ts";

/** Tables that only the keeper's role may change. */
const keeper = { role: "tributary_keeper" } as const;

type OwnTable = "product_sales" | "app_events" | "conversions" | "outbox";

/** A conversion names its customer by a device or by `kind:hash` of a person. */
const customersOf = (target: ErasureTarget): readonly string[] => [
  ...target.devices,
  ...peopleOf(target).flatMap((hash) => [`email:${hash}`, `phone:${hash}`]),
];

/** An event that the analytics store has of the subject. */
type NamedEvent = Pick<FoundEvent, "eventId" | "did" | "persons">;

/**
 * Rows of sales and of events in apps. `events`: a row itself does not say what was in its props. A
 * row of the same id under another name is of another event: a stranger sends what ids he likes.
 */
const rowsOf = (target: ErasureTarget, name: Sql, names: readonly string[], events: readonly NamedEvent[]): Sql => {
  const { clientId, since, subject } = target;
  const orders = subject.kind === "order_id" ? subject.ids : [];
  const found = events.flatMap(({ eventId, did: device, persons }) =>
    [device, ...persons].map((one) => [eventId, one] as const),
  );
  const [foundIds, foundNames] = [found.map(([id]) => id), found.map(([, one]) => one)];
  return sql`client_id = ${clientId} and occurred_at <= ${new Date(since)} and (
    order_id = any (${orders})
    or not ${isScrubbed(name)} and (${name} = any (${names}) or event_id = any (${foundIds}::uuid[])
      and (event_id, ${name}) in (select * from unnest(${foundIds}::uuid[], ${foundNames}::text[]))))`;
};

/** Texts under which an event of the subject stands in a row of the outbox that is sent. */
const needlesOf = (target: ErasureTarget): readonly string[] => {
  const { kind, forms, ids } = target.subject;
  const leads = kind === "client_lead_id" ? forms.map((form) => leadIdOf(target.clientId, form)) : [];
  // The props are a text inside of a text.
  const inText = (text: string): string => JSON.stringify(text).slice(1, -1);
  const plain = (id: string): string => inText(JSON.stringify({ client_lead_id: id }).slice(1, -1));
  return [...forms, ...target.devices, ...leads, ...(kind === "client_lead_id" ? ids.map(plain) : [])];
};

const sentOf = (target: ErasureTarget): Sql => sql`client_id = ${target.clientId} and sent_at is not null
  and exists (select from unnest(${needlesOf(target)}::text[]) needle where strpos(record::text, needle) > 0)`;

const did = sql`did`;
const customer = sql`customer`;

const conditionOf = (table: OwnTable, target: ErasureTarget, events: readonly NamedEvent[]): Sql => {
  if (table === "outbox") return sentOf(target);
  if (table === "conversions") return rowsOf(target, customer, customersOf(target), events);
  return rowsOf(target, did, target.devices, events);
};

const countIn = async (tx: PoolClient, from: Sql): Promise<number> =>
  (await tx.query<{ n: number }>(sql`select count(*)::int as n from ${from}`)).rows[0]!.n;

const fromOf = (table: OwnTable, where: Sql): Sql => {
  const names = { product_sales: sql`product_sales`, app_events: sql`app_events`, conversions: sql`conversions` };
  return table === "outbox" ? sql`outbox where ${where}` : sql`${names[table]} where ${where}`;
};

/** The number of rows of each table that still hold the subject. */
export const countOwnRows = (
  pool: Pool,
  target: ErasureTarget,
  events: readonly NamedEvent[],
): Promise<Readonly<Record<OwnTable, number>>> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const count = (table: OwnTable) => countIn(tx, fromOf(table, conditionOf(table, target, events)));
      return {
        product_sales: await count("product_sales"),
        app_events: await count("app_events"),
        conversions: await count("conversions"),
        outbox: await count("outbox"),
      };
    },
    { ...keeper, isReadOnly: true },
  );

/** One transaction. Rows of an order get one other name, so that they still count as one order. */
export const eraseOwnRows = async (pool: Pool, target: ErasureTarget, events: readonly NamedEvent[]): Promise<void> => {
  const { ids, orderName } = target.subject;
  const order = sql`order_id = case when order_id = any (${ids}) then coalesce(${orderName}::text, order_id)
    else order_id end`;
  const where = (table: OwnTable): Sql => conditionOf(table, target, events);
  await transaction(
    pool,
    null,
    async (tx) => {
      await tx.query(sql`update product_sales set did = ${scrubbedName}, ${order} where ${where("product_sales")}`);
      await tx.query(sql`delete from app_events where ${where("app_events")} and ${isFreeAppEvent}`);
      await tx.query(sql`update app_events set did = ${scrubbedName}, ${order} where ${where("app_events")}`);
      await tx.query(sql`update conversions set customer = ${scrubbedName}, ${order} where ${where("conversions")}`);
      await tx.query(sql`delete from outbox where ${where("outbox")}`);
      await tx.query(sql`delete from consent_marks where client_id = ${target.clientId}
        and did = any (${target.devices})`);
    },
    keeper,
  );
};

/**
 * Deletes edges that a writer made of events of before, while it did not know the list yet. What a
 * device shows afterwards is new. Returns their number.
 */
export const eraseLateEdges = (pool: Pool, target: ErasureTarget): Promise<number> =>
  transaction(pool, [target.clientId], async (tx) => {
    const { rowCount } = await tx.query(sql`delete from identity_edges where ${edgesOf(target)}`);
    return rowCount ?? 0;
  });

const edgesOf = (target: ErasureTarget): Sql => sql`client_id = any (${[target.clientId]}::int[])
  and (did = any (${target.devices}) or identifier = any (${peopleOf(target)}))
  and first_seen <= ${new Date(target.since)}`;

export interface ListCounts {
  readonly identityEdges: number;
  readonly leads: number;
  readonly recordings: number;
  readonly payloads: number;
}

/** What goes in the transaction that writes the list. Needs a transaction that sees the client. */
export const countListRows = async (tx: PoolClient, target: ErasureTarget): Promise<ListCounts> => {
  const own = sql`client_id = any (${[target.clientId]}::int[])`;
  const { kind, forms } = target.subject;
  const [people, seenOn] = [peopleOf(target), [...target.devices, ...target.shared]];
  const leads = kind === "client_lead_id" ? forms.map((form) => leadIdOf(target.clientId, form)) : [];
  return {
    identityEdges: await countIn(tx, sql`identity_edges where ${edgesOf(target)}`),
    leads: await countIn(
      tx,
      sql`lead_people where ${own}
        and (email = any (${people}) or phone = any (${people}) or lead_id = any (${leads}))`,
    ),
    recordings: await countIn(tx, sql`recordings where ${own} and device = any (${seenOn})`),
    payloads: await countIn(tx, sql`source_payloads where ${own}`),
  };
};
