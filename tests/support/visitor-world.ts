// A client with planted visitors on real stores, for tests of erasure and retention: what devices
// do, in every place that keeps it, and all that the stores hold of the client as one text.
import type { Redis } from "ioredis";
import type pg from "pg";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { leadIdOf, leadSubject } from "../../domain/ids.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events as eventsTable } from "../../sinks/analytics/table.ts";
import { appEventRows } from "../../sinks/app-events/rows.ts";
import { appEvents } from "../../sinks/app-events/table.ts";
import { consentRows } from "../../sinks/consent/rows.ts";
import { consentChanges } from "../../sinks/consent/table.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { conversions } from "../../sinks/conversions/table.ts";
import { identityLinkRows } from "../../sinks/identity/rows.ts";
import { identityEdges } from "../../sinks/identity/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { redisStore } from "../../sinks/stores/redis.ts";
import { velocityRows } from "../../sinks/velocity/rows.ts";
import { velocity } from "../../sinks/velocity/table.ts";
import { topics } from "../../topics.ts";
import { attributed, choice, clickCredit, conversion, dayMs, noon, recorded } from "./builders.ts";

export interface VisitorStores {
  readonly pool: pg.Pool;
  readonly adminPool: pg.Pool;
  readonly clickhouse: Clickhouse;
  readonly redis: Redis;
}

/** Ids of events differ between clients and between calls. */
let ids = 0;
const hex = (n: number): string => n.toString(16).padStart(12, "0");
const clickIdOf = (name: string): string => `click-${name}`;

const edgeOf = (identifier: string, at: number) => ({
  ...{ identifier, kind: "email", method: "email_on_event", confidence: 100, expires_at: at + 90 * dayMs },
});

/** What a device of a person does: views, a click, an order, a refund, an install, a lead. */
const eventsOf = (device: string, email: string | null, order: string): readonly Partial<EventReceived>[] => {
  const props = (more: object = {}) =>
    JSON.stringify({ ...(email === null ? {} : { email }), note: `note-${device}`, ...more });
  const seen = {
    ...{ ip: `ip-${device}`, ua: `ua-${device}`, url: `https://shop.example/${device}`, ref: `ref-${device}` },
  };
  const free = { order_id: null, value_minor: null, props: props(), ...seen };
  const money = { order_id: order, value_minor: 100_00n, currency: "MXN", click_id: clickIdOf(device), ...seen };
  return [
    { t: "page_view", ...free },
    { t: "custom", custom_name: "ext_level", ...free },
    { t: "click", ...free, click_id: clickIdOf(device) },
    { t: "purchase", ...money, sid: `sid-${device}`, sender_event_id: `sender-${device}`, props: props() },
    { t: "refund", ...money, value_minor: 10_00n, props: props({ reason: "other" }) },
    { t: "install", ...money, order_id: null, sale_hash: `pulled-${order.length}`, props: props() },
    {
      ...{ t: "lead_submit", ...money, order_id: null, lead_key: leadSubject(`lead-${device}`) },
      props: props({ client_lead_id: `lead-${device}` }),
    },
  ];
};

/** Credited events as stages write them, and the conversions that come of those with an amount. */
const recordsOf = (
  { client, did, email }: { readonly client: number; readonly did: string; readonly email: string | null },
  events: readonly Partial<EventReceived>[],
  at: number,
) => {
  const shown = email === null ? null : `email:${email}`;
  const data = events.map((event) =>
    attributed(
      { client_id: client, event_id: `00000000-0000-8000-8000-${hex(client * 1_000 + ++ids)}`, did, ts: at, ...event },
      {
        enrichment: {
          ...{ person: shown, edges: email === null ? [] : [edgeOf(email, at)] },
          ...{ region: "JAL", city: "Guadalajara", country: "MX" },
        },
        // An event of an app that is worth nothing earns nothing.
        credit: event.t === "custom" ? {} : clickCredit({ candidates: [wonBy(event.click_id ?? "none")] }),
        fraud: { reasons: [{ code: "x", weight: 1, evidence: `evidence of ${event.ip} "quoted"` }] },
      },
    ),
  );
  const sold = data.filter(({ event }) => event.t !== "refund" && event.value_minor !== null);
  const made = sold.map(({ event: { event_id, t, order_id } }) =>
    conversion({
      ...{ client_id: client, conversion_id: `cnv_${event_id}`, change_id: `chg_${event_id}`, occurred_at: at },
      ...{ event_id, cause_event_id: event_id, event_type: t, order_id, customer: shown ?? did },
    }),
  );
  return { data, made };
};
const wonBy = (reference: string) => ({ method: "click", reference, partner_id: 21, campaign_id: 31, outcome: "won" });

const heldIn = async (redis: Redis, key: string): Promise<unknown> => {
  const type = await redis.type(key);
  if (type === "string") return redis.get(key);
  if (type === "hash") return redis.hgetall(key);
  return type === "set" ? redis.smembers(key) : redis.zrange(key, "0", "-1");
};

/** One client whose devices and people are named in plain words. */
export class VisitorWorld {
  readonly prefix: string;
  readonly identify;
  readonly client: number;
  private readonly stores: VisitorStores;

  constructor(stores: VisitorStores, client: number) {
    this.stores = stores;
    this.client = client;
    this.prefix = `visitors-${client}-`;
    this.identify = identifyFor(pepperOf("the secret of an installation", client), 100);
  }
  did(name: string): string {
    return this.identify.plain(name);
  }
  hashOf(email: string): string {
    return this.identify.plain(email);
  }

  /** `over`: fields of each event. */
  async plantEvents(
    device: string,
    address: string | null,
    order: string,
    at: number = noon,
    over: Partial<EventReceived> = {},
  ): Promise<void> {
    const { client, prefix } = this;
    const { pool, clickhouse, redis } = this.stores;
    const [did, email] = [this.did(device), address === null ? null : this.hashOf(address)];
    const { data, made } = recordsOf(
      { client, did, email },
      eventsOf(device, email, order).map((one) => ({ ...one, ...over })),
      at,
    );
    const event_id = `00000000-0000-8000-8000-${hex(client * 1_000 + ++ids)}`;
    const chosen = attributed(choice({ client_id: client, event_id, did, ts: at }, 0xfe));
    const inLog = [...data, chosen].map((one) => recorded(topics.eventsAttributed, one, { at }));
    const store = clickhouseStore(clickhouse);
    await store.insert(eventsTable, inLog.flatMap(eventRows), `visitors/${client}/${ids}`);
    await store.insert(consentChanges, inLog.flatMap(consentRows), `visitors/${client}/choice/${ids}`);
    await postgresStore(pool).within({ tenants: [client], token: "" }, async (write) => {
      await productSales.write(inLog.flatMap(saleRows), write);
      await appEvents.write(inLog.flatMap(appEventRows), write);
      await identityEdges.write(inLog.flatMap(identityLinkRows), write);
      const changes = made.map((one) => recorded(topics.conversions, one));
      await conversions.write(changes.flatMap(conversionRows), write);
    });
    await redisStore(redis, `${prefix}hints`).within({ tenants: [client], token: "" }, (write) =>
      velocity.write(inLog.flatMap(velocityRows), write),
    );
    for (const stage of ["enrich", "attribute"])
      await redis.hset(`${prefix}memory:${stage}:${client}:${did}`, "e", did);
  }

  /** Views of a device under the ids of all events of another, as pages could once send them. */
  async plantViewsUnderIdsOf(device: string, stranger: string): Promise<void> {
    const { client } = this;
    const { clickhouse } = this.stores;
    const found = await clickhouse.query({
      query: `select distinct event_id from events where client_id = ${client} and did = {did:String}`,
      query_params: { did: this.did(device) },
      format: "JSONEachRow",
    });
    const ids = (await found.json<{ event_id: string }>()).map(({ event_id }) => event_id);
    // Of another hour, or the store would keep one row of both.
    const views = ids.map((event_id) =>
      attributed({ client_id: client, event_id, did: this.did(stranger), ts: noon - 5 * 3_600_000, t: "page_view" }),
    );
    const rows = views.flatMap((view) => eventRows(recorded(topics.eventsAttributed, view, { at: noon })));
    await clickhouseStore(clickhouse).insert(eventsTable, rows, `visitors/${client}/strangers`);
  }

  /** Rows of tables that no event leads to. */
  async plantRows(device: string, address: string): Promise<void> {
    const { client } = this;
    const [did, email] = [this.did(device), this.hashOf(address)];
    const leadId = leadIdOf(client, leadSubject(`lead-${device}`));
    const sent = { event: { did, props: JSON.stringify({ email }) } };
    const statements: readonly (readonly [text: string, values: readonly unknown[]])[] = [
      [
        `insert into leads (client_id, lead_id, event_id, client_lead_id, has_good_click, event_at, received_at)
          values ($1, $2, gen_random_uuid(), $3, true, now(), now())`,
        [client, leadId, `lead-${device}`],
      ],
      ["insert into lead_people values ($1, $2, $3, null, 'sealed')", [client, leadId, email]],
      ["insert into lead_keys values ($1, 'email', $2, 'k'), ($1, 'lead', $3, 'k')", [client, email, leadId]],
      [
        `insert into recordings (client_id, session_id, device, started_at, last_at, consent)
          values ($1, $2, $3, now(), now(), 255)`,
        [client, `session-${device}`, did],
      ],
      ["insert into recording_keys values ($1, $2, 'k')", [client, did]],
      ["insert into consent_marks (client_id, did, sequence) values ($1, $2, 1) on conflict do nothing", [client, did]],
      [
        "insert into outbox (topic, client_id, record, sent_at) values ('events.raw', $1, $2::jsonb, now())",
        [client, JSON.stringify(sent)],
      ],
    ];
    for (const [text, values] of statements) await this.stores.adminPool.query(text, [...values]);
  }

  /** Ana on a phone of her own and on a tablet that Ben uses too; Ben on his laptop. */
  async plant(): Promise<void> {
    await this.plantEvents("phone", "ana@example.com", "order-ana");
    await this.plantEvents("tablet", "ana@example.com", "order-tablet");
    await this.plantEvents("tablet", "ben@example.com", "order-ben-tablet");
    await this.plantEvents("laptop", "ben@example.com", "order-ben");
    await this.plantRows("phone", "ana@example.com");
    await this.plantRows("laptop", "ben@example.com");
  }

  /** What the stores hold of the client, a row a line, without erased subjects and the audit. */
  async everything(): Promise<string> {
    const { adminPool, clickhouse, redis } = this.stores;
    const { rows: tables } = await adminPool.query<{ name: string }>(
      `select distinct table_name as name from information_schema.columns
        where table_schema = 'public' and column_name = 'client_id' and table_name not in ('suppressions', 'audit')
          and table_name in (select tablename from pg_tables)`,
    );
    const texts: string[] = [];
    for (const { name } of tables) {
      const query = `select kept_row::text as row from "${name}" kept_row where client_id = $1`;
      const { rows } = await adminPool.query<{ row: string }>(query, [this.client]);
      texts.push(...rows.map(({ row }) => `${name} ${row}`));
    }
    for (const table of ["events", "consent_changes", "receipts", "device_events"]) {
      const query = `select * from ${table} where client_id = ${this.client}`;
      const rows = await (await clickhouse.query({ query, format: "JSONEachRow" })).json<object>();
      texts.push(...rows.map((row) => `${table} ${JSON.stringify(row)}`));
    }
    for (const key of await redis.keys(`${this.prefix}*`))
      texts.push(`redis ${key} ${JSON.stringify(await heldIn(redis, key))}`);
    return texts.sort().join("\n");
  }

  /** Counts and sums by which a client is billed. */
  async money(): Promise<object> {
    const { adminPool, clickhouse } = this.stores;
    const rows = async (query: string) => (await adminPool.query(query, [this.client])).rows;
    const query = `select t, toString(uniqExact(order_id)), toString(sum(value_minor)), toString(count())
      from events_current where client_id = ${this.client} and value_minor is not null group by t order by t`;
    return {
      sales: await rows(`select t, count(*), count(distinct order_id) as orders, sum(value_minor) from product_sales
        where client_id = $1 group by t order by t`),
      apps: await rows(`select event_type, sum(value_minor) from app_events
        where client_id = $1 and value_minor is not null group by 1 order by 1`),
      conversions: await rows(`select count(*), count(distinct order_id) as orders, sum(value_minor), status
        from conversions where client_id = $1 group by status`),
      days: await rows(`select source, sum(n), sum(amount_minor), sum(part_minor) from money_days
        where client_id = $1 group by source order by source`),
      events: await (await clickhouse.query({ query, format: "JSONCompactEachRow" })).json(),
    };
  }
}

/** The lines with any of these texts. */
export const linesWith = (all: string, ...needles: readonly string[]): readonly string[] =>
  all.split("\n").filter((line) => needles.some((needle) => line.includes(needle)));
