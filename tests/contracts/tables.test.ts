// The law of every table that sinks write: rows that are written twice, in any order and in any
// batches, leave the same table as rows written once with the newest version last (R1, R2, I5).
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate as migrateClickhouse } from "../../infra/clickhouse/migrate.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { postgresTables } from "../../modules/running/state-hash/sink-tables.ts";
import type { Claim, Conversion, EventAttributed, LedgerEntry } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { conversions } from "../../sinks/conversions/table.ts";
import { identityLinkRows } from "../../sinks/identity/rows.ts";
import { identityEdges } from "../../sinks/identity/table.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { type ClickhouseTable, clickhouseStore, isClickhouseTable } from "../../sinks/stores/clickhouse.ts";
import { isPostgresTable, postgresStore } from "../../sinks/stores/postgres.ts";
import { type AnySink, type AnyTopic, type Recorded, type Table, type Topic, writesRows } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { attributed, choice, claim, clickCredit, conversion, noon, recorded } from "../support/builders.ts";
import { laterRelease, readLater, recordsOf, rewritten } from "../support/later-release.ts";
import { entry as ledgerEntry } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
let clickhouse: Clickhouse;
const app = openPool(env.POSTGRES_URL!);
const admin = openPool(env.POSTGRES_ADMIN_URL!);
beforeAll(async () => {
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
  await migrateClickhouse(clickhouse);
});
afterAll(async () => {
  await Promise.all([clickhouse.close(), app.end(), admin.end()]);
});

// Each case has its own tenant, so that no case reads rows of another.
let lastTenant = 1_000_000 + (Date.now() % 1_000_000) * 100;
const nextTenant = (): number => ++lastTenant;
// The store would take the token of an earlier run for the same insert.
const started = Date.now();
let lastToken = 0;
const token = (): string => `test/${started}/${++lastToken}`;
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;

const write = async <Row>(
  table: Table<Row>,
  rows: readonly Row[],
  tenants = [...new Set(rows.map(table.tenantOf))],
): Promise<void> => {
  const store = table.store === "clickhouse" ? clickhouseStore(clickhouse) : postgresStore(app);
  await store.within({ tenants, token: token() }, (each) => table.write(rows, each));
};

/** All rows of a tenant, without its id and the columns that two readings may differ in. */
const inClickhouse =
  ({ name, key, columns }: Pick<ClickhouseTable<any>, "name" | "key" | "columns">) =>
  async (tenant: number): Promise<unknown> => {
    const left = [
      "client_id",
      "stored_at",
      ...columns.flatMap((one) => (one.volatile === undefined ? [] : [one.name])),
    ];
    const result = await clickhouse.query({
      query:
        `select * except (${left.join(", ")}) from ${name} final ` +
        `where client_id = {tenant:UInt32} order by ${key.join(", ")}`,
      query_params: { tenant },
      format: "JSONEachRow",
    });
    return result.json();
  };
const storedEvents = inClickhouse(events);
const inPostgres =
  (...tables: readonly string[]) =>
  async (tenant: number): Promise<unknown> => {
    const read = tables.map((table) =>
      admin.query(
        `select to_jsonb(kept) - array['client_id', 'content_hash', 'stored_at'] as row from ${table} as ` +
          "kept where client_id = $1 order by 1",
        [tenant],
      ),
    );
    return (await Promise.all(read)).map(({ rows }) => rows);
  };

/**
 * Claims of one order over time: a sale, its second copy, an assignment by a person, and a refund.
 */
const attributedHistory = (client_id: number): readonly EventAttributed[] => [
  attributed({ client_id, event_id: uuid(1) }),
  attributed({ client_id, event_id: uuid(2), did: "d2" }, { merged_into: uuid(1) }),
  attributed({ client_id, event_id: uuid(1), value_minor: 99_99n }, { version: 2, credit: clickCredit() }),
  attributed({ client_id, event_id: uuid(3), t: "refund", value_minor: null, currency: null }),
  attributed(
    { client_id, event_id: uuid(1), value_minor: 99_99n },
    { version: 3, credit: clickCredit({ partner_id: 22 }) },
  ),
  attributed({ client_id, event_id: uuid(4), order_id: "o2", value_minor: 9_223_372_036_854_775_807n }),
];
/**
 * An install that is credited later, an order of the app with a second copy, and an event with a
 * name of its own.
 */
const appHistory = (client_id: number): readonly EventAttributed[] => [
  attributed({ client_id, event_id: uuid(1), t: "install", order_id: null, value_minor: null, currency: null }),
  attributed({ client_id, event_id: uuid(2), t: "ext_purchase", source: "pull", sale_hash: "a".repeat(64) }),
  attributed({ client_id, event_id: uuid(3), t: "ext_purchase" }, { merged_into: uuid(2) }),
  attributed({ client_id, event_id: uuid(4), t: "custom", custom_name: "ext_subscription_started" }),
  attributed({ client_id, event_id: uuid(1), t: "install" }, { version: 2, credit: clickCredit() }),
];
const conversionHistory = (client_id: number): readonly Conversion[] => [
  conversion({ client_id, conversion_id: "cnv_1", change_id: "a" }),
  conversion({ client_id, conversion_id: "cnv_2", change_id: "b", product_id: "sku2" }),
  conversion({
    client_id,
    conversion_id: "cnv_1",
    change_id: "c",
    kind: "reversed",
    version: 2,
    value_minor: 40_00n,
    refunded_minor: 40_00n,
    reason: "item_returned",
  }),
  conversion({
    client_id,
    conversion_id: "cnv_1",
    change_id: "d",
    kind: "reversed",
    version: 3,
    value_minor: 60_00n,
    refunded_minor: 100_00n,
    reason: "item_returned",
  }),
];
const lines = (amount: bigint, partner = "payable:partner") => [
  { account: "expense:client", amount_minor: amount },
  { account: partner, amount_minor: -amount },
];
const ledgerHistory = (client_id: number): readonly LedgerEntry[] => [
  ledgerEntry({ client_id, entry_id: "led_1", conversion_id: "cnv_1" }),
  ledgerEntry({
    client_id,
    entry_id: "led_2",
    conversion_id: "cnv_2",
    lines: lines(10_00n, "held:partner"),
    held: true,
  }),
  ledgerEntry({
    client_id,
    entry_id: "led_3",
    conversion_id: "cnv_3",
    kind: "none",
    amount_minor: 0n,
    lines: [],
    reason: "no_contract",
  }),
  ledgerEntry({
    client_id,
    entry_id: "led_4",
    conversion_id: "cnv_1",
    conversion_version: 2,
    kind: "reversal",
    amount_minor: -4_00n,
    lines: lines(-4_00n),
    reason: "item_returned",
  }),
  ledgerEntry({
    client_id,
    entry_id: "led_5",
    conversion_id: "cnv_1",
    conversion_version: 3,
    kind: "reversal",
    amount_minor: -6_00n,
    lines: lines(-6_00n),
    reason: "item_returned",
  }),
];

/**
 * One device sends two identifiers, one of them three times; another device sends the same ones.
 * The event time is the sender's.
 */
const identityHistory = (client_id: number): readonly EventAttributed[] =>
  [
    { n: 1, did: "d1", kind: "email", who: "a", at: noon },
    { n: 2, did: "d1", kind: "email", who: "a", at: noon - 1_000 },
    { n: 3, did: "d1", kind: "email", who: "a", at: noon + 1_000 },
    { n: 4, did: "d1", kind: "email", who: "a", at: noon - 1_000 },
    { n: 5, did: "d1", kind: "login", who: "b", at: noon },
    { n: 6, did: "d2", kind: "email", who: "a", at: noon },
  ].map(({ n, did, kind, who, at }) => {
    const edge = { kind, identifier: who.repeat(64), method: `${kind}_on_event`, confidence: 100, expires_at: at + 1 };
    return attributed({ client_id, event_id: uuid(n), did, ts: at }, { enrichment: { edges: [edge] } });
  });

/** A device chooses three times, another one once; a change without a choice counts as none. */
const consentHistory = (client_id: number): readonly EventAttributed[] =>
  [
    { n: 1, did: "d1", mask: 0xff },
    { n: 2, did: "d1", mask: 0 },
    { n: 3, did: "d1", mask: 0x01 },
    { n: 4, did: "d2", mask: 0xfb },
  ].map(({ n, did, mask }) => attributed(choice({ client_id, event_id: uuid(n), did }, mask)));

/** A sale, its refund and a decision about it. */
const claimHistory = (client_id: number): readonly Claim[] =>
  (["conversion", "refund", "decision"] as const).map((kind) => claim({ client_id, kind }));

const histories = new Map<AnyTopic, readonly ((tenant: number) => readonly unknown[])[]>([
  [topics.eventsAttributed, [attributedHistory, appHistory, identityHistory, consentHistory]],
  [topics.claims, [claimHistory]],
  [topics.conversions, [conversionHistory]],
  [topics.ledgerEntries, [ledgerHistory]],
]);
/** The rows of each record, for the history of which the sink writes the most rows. */
const writtenBy = ({ from, rows }: AnySink): ((tenant: number) => readonly (readonly any[])[]) => {
  const readings = (histories.get(from) ?? []).map(
    (history) => (tenant: number) =>
      history(tenant).map((data: any, offset) => {
        const position = { topic: from.name, partition: 0, offset };
        return rows(recorded(from, data, { at: data.event?.ts ?? noon, position }));
      }),
  );
  const sizes = readings.map((reading) => reading(1).flat().length);
  return readings[sizes.indexOf(Math.max(...sizes))]!;
};
const contentOf = (table: Table<unknown>): ((tenant: number) => Promise<unknown>) => {
  if (isClickhouseTable(table)) return inClickhouse(table);
  if (isPostgresTable(table)) return inPostgres(...[table, ...(table.fills ?? [])].map(({ name }) => name));
  throw new Error(`the store of ${table.name} has no rows to compare`);
};
const cases = pipeline.nodes.flatMap((node) =>
  node.is === "sink" && writesRows(node) && node.into.store !== "redis"
    ? [{ table: node.into, rowsOf: writtenBy(node), content: contentOf(node.into) }]
    : [],
);
describe.each(cases)("the table $table.name", ({ table, rowsOf, content }) => {
  test("is the same whether rows come once, in order, or again and again in any order and any batches", async () => {
    const reference = nextTenant();
    for (const batch of rowsOf(reference)) await write(table, batch);
    const expected = await content(reference);
    const count = rowsOf(reference).length;
    const anyOrder = fc.tuple(
      fc.shuffledSubarray([...Array(count).keys()], { minLength: count }),
      fc.array(fc.nat(count - 1), { maxLength: 4 }),
      fc.array(fc.integer({ min: 1, max: count }), { minLength: 1, maxLength: 4 }),
    );
    await fc.assert(
      fc.asyncProperty(anyOrder, async ([order, again, cuts]) => {
        const tenant = nextTenant();
        const given = rowsOf(tenant);
        const sequence = [...order, ...again].map((n) => given[n]!);
        for (let at = 0, n = 0; at < sequence.length; n += 1) {
          const size = cuts[n % cuts.length]!;
          await write(table, sequence.slice(at, at + size).flat(), [tenant]);
          at += size;
        }
        expect(await content(tenant)).toEqual(expected);
      }),
      { numRuns: 20 },
    );
  });

  test("keeps its rows by the key that it names", () => {
    const [first] = rowsOf(nextTenant()).flat();
    expect(first, "no history has rows of this sink").toBeDefined();
    for (const column of table.key) expect(first[column]).toBeDefined();
  });
});

test("a repeated insert under its token is answered and not written again", async () => {
  const tenant = nextTenant();
  const rows = eventRows(recorded(topics.eventsAttributed, attributed({ client_id: tenant, event_id: uuid(1) })));
  const store = clickhouseStore(clickhouse);
  await store.insert(events, rows, `repeat/${tenant}`);
  await store.insert(events, rows, `repeat/${tenant}`);
  const physical = await clickhouse.query({
    query: `select count() as n from events where client_id = ${tenant}`,
    format: "JSONEachRow",
  });
  expect(await physical.json()).toEqual([{ n: "1" }]);
});

const refusal = async (work: Promise<unknown>): Promise<{ code: unknown; verdict: string; message: string }> => {
  try {
    await work;
  } catch (error) {
    const { code, message } = error as { code: unknown; message: string };
    return { code, verdict: classify(error), message };
  }
  throw new Error("nothing was refused");
};

test("rows that a store refuses for their data are called so, and nothing of their batch is there", async () => {
  const tenant = nextTenant();
  const good = attributed({ client_id: tenant, event_id: uuid(1) });
  const noUuid = attributed({ client_id: tenant, event_id: "not a uuid" });
  const nul = attributed({ client_id: tenant, event_id: uuid(2), order_id: "a\0b" });
  const rowsFor = <Row>(
    rows: (event: Recorded<EventAttributed>) => readonly Row[],
    ...data: readonly EventAttributed[]
  ) => data.flatMap((one) => rows(recorded(topics.eventsAttributed, one)));
  expect((await refusal(write(events, rowsFor(eventRows, good, noUuid)))).verdict).toBe("data");
  expect((await refusal(write(productSales, rowsFor(saleRows, good, noUuid)))).verdict).toBe("data");
  expect((await refusal(write(productSales, rowsFor(saleRows, good, nul)))).verdict).toBe("data");
  expect(await storedEvents(tenant)).toEqual([]);
  expect(await inPostgres("product_sales")(tenant)).toEqual([[]]);
});

describe("the ledger", () => {
  const writeEntry = (tenant: number, over: Partial<LedgerEntry>) =>
    write(
      ledger,
      ledgerRows(
        recorded(
          topics.ledgerEntries,
          ledgerEntry({ client_id: tenant, entry_id: "led_1", conversion_id: "cnv_1", ...over }),
        ),
      ),
    );

  test("refuses an entry whose lines do not sum to zero", async () => {
    const tenant = nextTenant();
    const unbalanced = [
      { account: "expense:client", amount_minor: 10_00n },
      { account: "payable:partner", amount_minor: -9_99n },
    ];
    const { code, verdict, message } = await refusal(writeEntry(tenant, { lines: unbalanced }));
    expect({ code, verdict }).toEqual({ code: "23514", verdict: "data" });
    expect(message).toContain("does not balance: MXN 1");
    expect(await inPostgres("ledger_entries", "ledger_lines", "commissions")(tenant)).toEqual([[], [], []]);
  });

  test("refuses lines that balance only across currencies", async () => {
    const tenant = nextTenant();
    await writeEntry(tenant, {});
    const mixed = admin.query(
      "insert into ledger_lines values ($1, $2, 3, 'expense:client', 'MXN', 5), ($1, $2, 4, " +
        "'payable:partner', 'USD', -5)",
      [tenant, "led_1"],
    );
    expect((await refusal(mixed)).code).toBe("23514");
  });

  test("refuses lines without their entry, and lets no entry go that has lines", async () => {
    const tenant = nextTenant();
    const orphans = admin.query(
      "insert into ledger_lines values ($1, 'led_2', 1, 'expense:client', 'MXN', 5), ($1, 'led_2', 2, " +
        "'payable:partner', 'MXN', -5)",
      [tenant],
    );
    expect((await refusal(orphans)).code).toBe("23503");
    await writeEntry(tenant, {});
    expect((await refusal(admin.query("delete from ledger_entries where client_id = $1", [tenant]))).code).toBe(
      "23503",
    );
    await admin.query("delete from ledger_lines where client_id = $1", [tenant]);
    await admin.query("delete from ledger_entries where client_id = $1", [tenant]);
  });

  test("gives back one lost line of an entry, and refuses one that its entry does not have", async () => {
    const tenant = nextTenant();
    await writeEntry(tenant, {});
    const before = await inPostgres("ledger_lines")(tenant);
    await admin.query("delete from ledger_lines where client_id = $1 and line = 2", [tenant]);
    await writeEntry(tenant, {});
    expect(await inPostgres("ledger_lines")(tenant)).toEqual(before);
    const further = admin.query("insert into ledger_lines values ($1, 'led_1', 3, 'expense:client', 'MXN', 5)", [
      tenant,
    ]);
    expect((await refusal(further)).code).toBe("23514");
  });

  test("refuses an amount without lines", async () => {
    expect((await refusal(writeEntry(nextTenant(), { lines: [] }))).code).toBe("23514");
  });

  test("refuses a second content under an id that is there, and keeps the first", async () => {
    const tenant = nextTenant();
    await writeEntry(tenant, {});
    const before = await inPostgres("ledger_entries", "ledger_lines", "commissions")(tenant);
    const { verdict, message } = await refusal(writeEntry(tenant, { amount_minor: 11_00n, lines: lines(11_00n) }));
    expect({ verdict, message }).toEqual({
      verdict: "data",
      message: `ledger entry led_1 is there with another content`,
    });
    expect(await inPostgres("ledger_entries", "ledger_lines", "commissions")(tenant)).toEqual(before);
  });

  test("refuses two contents of one id inside one batch", async () => {
    const tenant = nextTenant();
    const both = [
      ledgerEntry({ client_id: tenant, entry_id: "led_1" }),
      ledgerEntry({ client_id: tenant, entry_id: "led_1", reason: "other" }),
    ];
    expect(
      (
        await refusal(
          write(
            ledger,
            both.flatMap((one) => ledgerRows(recorded(topics.ledgerEntries, one))),
          ),
        )
      ).verdict,
    ).toBe("data");
  });

  test("gives back lines that were lost when its entries are read again", async () => {
    const tenant = nextTenant();
    await writeEntry(tenant, {});
    const before = await inPostgres("ledger_lines", "commissions")(tenant);
    await admin.query("delete from ledger_lines where client_id = $1", [tenant]);
    await admin.query("delete from commissions where client_id = $1", [tenant]);
    await writeEntry(tenant, {});
    expect(await inPostgres("ledger_lines", "commissions")(tenant)).toEqual(before);
  });

  test("shows what became of a commission: pending, on hold, reversed, or nothing for a reason", async () => {
    const tenant = nextTenant();
    await write(
      ledger,
      ledgerHistory(tenant).flatMap((one) => ledgerRows(recorded(topics.ledgerEntries, one))),
    );
    const { rows } = await admin.query(
      "select commission_id, status, amount_minor, reason, version from commissions where client_id = " +
        "$1 order by commission_id",
      [tenant],
    );
    expect(rows).toEqual([
      { commission_id: "cms_1", status: "reversed", amount_minor: 0n, reason: "item_returned", version: 3 },
      { commission_id: "cms_2", status: "on_hold", amount_minor: 10_00n, reason: null, version: 1 },
      { commission_id: "cms_3", status: "pending", amount_minor: 0n, reason: "no_contract", version: 1 },
    ]);
  });

  test.each([
    "update ledger_entries set amount_minor = 0",
    "delete from ledger_entries",
    "truncate ledger_entries cascade",
    "update ledger_lines set amount_minor = 0",
    "delete from ledger_lines",
    "delete from commissions",
    "delete from conversions",
  ])("the application role may not: %s", async (statement) => {
    expect((await refusal(app.query(statement))).code).toBe("42501");
  });
});

describe("a record of an older release that is replayed after its schema has one field more", () => {
  const replayed = <T>(topic: Topic<T>, name: string, data: T) => {
    const later = laterRelease(topic, name);
    const event = recorded(topic, data);
    return [readLater(topic, later, event), rewritten(topic, later, event)];
  };
  test.each(recordsOf(topics.conversions))("is the conversion that is there: %s", async (name) => {
    const tenant = nextTenant();
    const data = conversion({ client_id: tenant });
    await write(conversions, conversionRows(recorded(topics.conversions, data)));
    const before = await inPostgres("conversions")(tenant);
    for (const event of replayed(topics.conversions, name, data)) await write(conversions, conversionRows(event));
    expect(await inPostgres("conversions")(tenant)).toEqual(before);
  });
  test.each(recordsOf(topics.ledgerEntries))("is the ledger entry that is there: %s", async (name) => {
    const tenant = nextTenant();
    const data = ledgerEntry({ client_id: tenant, entry_id: "led_1", conversion_id: "cnv_1" });
    await write(ledger, ledgerRows(recorded(topics.ledgerEntries, data)));
    const content = inPostgres("ledger_entries", "ledger_lines", "commissions");
    const before = await content(tenant);
    for (const event of replayed(topics.ledgerEntries, name, data)) await write(ledger, ledgerRows(event));
    expect(await content(tenant)).toEqual(before);
  });
});

test("a second content under a version of a conversion is refused", async () => {
  const tenant = nextTenant();
  const rowsWith = (over: Partial<Conversion>) =>
    conversionRows(recorded(topics.conversions, conversion({ client_id: tenant, ...over })));
  await write(conversions, rowsWith({}));
  expect((await refusal(write(conversions, rowsWith({ partner_id: 22 })))).verdict).toBe("data");
});

test("every table of the sinks forces row-level security, and a transaction without tenants sees nothing", async () => {
  const names = postgresTables.map(({ name }) => name);
  const { rows } = await admin.query(
    "select relname from pg_class where relname = any ($1) and relrowsecurity and relforcerowsecurity",
    [names],
  );
  expect(rows).toHaveLength(names.length);
  const tenant = nextTenant();
  await write(conversions, conversionRows(recorded(topics.conversions, conversion({ client_id: tenant }))));
  expect((await app.query("select * from conversions")).rows).toEqual([]);
  const foreign = write(
    conversions,
    conversionRows(recorded(topics.conversions, conversion({ client_id: nextTenant() }))),
    [tenant],
  );
  expect(await refusal(foreign)).toMatchObject({ code: "42501", verdict: "fatal" });
});

test("times keep their milliseconds in both stores", async () => {
  const tenant = nextTenant();
  const at = noon + 123;
  const data = attributed(
    { client_id: tenant, event_id: uuid(1), ts: at },
    { credit: clickCredit({ clicked_at: at - 1 }) },
  );
  await write(events, eventRows(recorded(topics.eventsAttributed, data, { at, receivedAt: at + 1 })));
  await write(productSales, saleRows(recorded(topics.eventsAttributed, data, { at })));
  const result = await clickhouse.query({
    query:
      "select toUnixTimestamp64Milli(ts) as ts, toUnixTimestamp64Milli(clicked_at) as clicked_at, " +
      `toUnixTimestamp64Milli(at) as at from events where client_id = ${tenant}`,
    format: "JSONEachRow",
  });
  expect(await result.json()).toEqual([{ ts: String(at), clicked_at: String(at - 1), at: String(at) }]);
  expect((await admin.query("select occurred_at from product_sales where client_id = $1", [tenant])).rows).toEqual([
    { occurred_at: at },
  ]);
});

test("an identity edge keeps its first evidence, its last sight and its latest expiry", async () => {
  const tenant = nextTenant();
  const rows = identityHistory(tenant).flatMap((data) =>
    identityLinkRows(recorded(topics.eventsAttributed, data, { at: data.event.ts })),
  );
  await write(identityEdges, rows);
  const { rows: kept } = await admin.query(
    "select evidence_event_id, first_seen, last_seen, expires_at from identity_edges where client_id " +
      "= $1 and did = 'd1' and kind = 'email'",
    [tenant],
  );
  expect(kept).toEqual([
    { evidence_event_id: uuid(2), first_seen: noon - 1_000, last_seen: noon + 1_000, expires_at: noon + 1_001 },
  ]);
});

test(
  "what enrichment and hints add to an event stands in its columns, and retention is read from its " + "consent",
  async () => {
    const tenant = nextTenant();
    const hints = { address_conversions: 3, click_devices: 1, click_country: "ES" };
    const place = {
      country: "MX",
      region: "CMX",
      city: "Mexico City",
      asn: 64_500,
      asn_class: "hosting",
      person: "email:x",
    };
    const rows = [0xff, 0xff & ~0x40].map((consent, n) =>
      attributed({ client_id: tenant, event_id: uuid(n + 1) }, { enrichment: { ...place, consent }, fraud: { hints } }),
    );
    await write(
      events,
      rows.flatMap((data) => eventRows(recorded(topics.eventsAttributed, data))),
    );
    const found = await clickhouse.query({
      query: `select region, city, asn, asn_class, person, hint_address_conversions, hint_click_devices,
        hint_click_country, extended_retention
      from events_current where client_id = {tenant:UInt32} order by event_id`,
      query_params: { tenant },
      format: "JSONEachRow",
    });
    const { country: _, ...columns } = place;
    const expected = { ...columns, hint_address_conversions: 3, hint_click_devices: 1, hint_click_country: "ES" };
    expect(await found.json()).toEqual([
      { ...expected, extended_retention: true },
      { ...expected, extended_retention: false },
    ]);
  },
);
