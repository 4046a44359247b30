// The state hash of the stores: equal rows give equal hashes, whatever the order, the batches and
// the unhashed columns; one different value gives another hash.
import { afterAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { computeRollups } from "../../modules/figures/rollups/rollups.ts";
import { differingRows, hashedAnalytics, unhashedAnalytics } from "../../modules/running/state-hash/clickhouse.ts";
import { compareReleases } from "../../modules/running/state-hash/compare.ts";
import { postgresTables } from "../../modules/running/state-hash/sink-tables.ts";
import {
  differingTables,
  hashableTables,
  stateByHour,
  stateHash,
} from "../../modules/running/state-hash/state-hash.ts";
import { batchTag } from "../../processors/admit/batch-id.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { Table } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, noon, recorded } from "../support/builders.ts";
import { entry } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env, demo } = sharedStack();
const client_id: number = demo.clients[2].id;
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
const pool = openPool(env.POSTGRES_URL!, { timeoutMs: 60_000 });
afterAll(() => Promise.all([clickhouse.close(), pool.end()]));

const run = `${process.pid}-${Date.now()}`;
let writes = 0;
const write = async <Row>(table: Table<Row>, rows: readonly Row[]): Promise<void> => {
  const store = table.store === "clickhouse" ? clickhouseStore(clickhouse) : postgresStore(pool);
  await store.within({ tenants: [client_id], token: `${run}/${writes++}` }, (each) => table.write(rows, each));
};
const uuid = (n: number): string => `00000000-0000-8000-8001-${(Date.now() + n).toString(16).padStart(12, "0")}`;
const sales = [1, 2, 3].map((n) =>
  attributed({
    client_id,
    event_id: uuid(n),
    t: "purchase",
    order_id: `${run}-${n}`,
    ts: noon + n * 60_000,
    batch_id: batchTag(Date.now(), Buffer.from([0, 0, 0, n])),
  }),
);
const rowsOf = (receivedAt = noon) =>
  sales.flatMap((data) => eventRows({ ...recorded(topics.eventsAttributed, data), receivedAt }));
const now = () => stateHash(pool, clickhouse);

test("the same rows in another order, in other batches and received at another time are the same state", async () => {
  const before = await now();
  const saleRowsOf = sales.flatMap((data) => saleRows({ ...recorded(topics.eventsAttributed, data) }));
  await write(events, rowsOf());
  await write(productSales, saleRowsOf);
  await write(
    ledger,
    ledgerRows(
      recorded(topics.ledgerEntries, entry({ client_id, entry_id: `led_${run}`, conversion_id: `cnv_${run}` })),
    ),
  );
  await computeRollups(
    clickhouse,
    [1, 2, 3].map((n) => ({ client_id, minute: noon + n * 60_000, sequence: 1n })),
  );
  const written = await now();
  const touched = differingTables(before, written);
  expect(touched).toEqual([
    ...["clickhouse.events", "clickhouse.receipts", "clickhouse.rollups", "clickhouse.rollup_dimensions"],
    ...["postgres.product_sales", "postgres.ledger_entries", "postgres.ledger_lines", "postgres.commissions"],
  ]);
  for (const row of rowsOf(noon + 5_000).reverse()) await write(events, [row]);
  for (const row of [...saleRowsOf].reverse()) await write(productSales, [row]);
  await computeRollups(
    clickhouse,
    [2, 1, 3].map((n) => ({ client_id, minute: noon + n * 60_000, sequence: 9n })),
  );
  await clickhouse.command({ query: "optimize table events final" });
  expect(await now()).toEqual(written);
});

test("of two copies of one event the later one in the log stands, whichever was written last", async () => {
  const at = (data: ReturnType<typeof attributed>, offset: number) =>
    eventRows({ ...recorded(topics.eventsAttributed, data), position: { topic: "events.raw", partition: 3, offset } });
  const first = attributed({ client_id, event_id: uuid(50), ts: noon });
  const second = { ...first, credit: clickCredit({ partner_id: 22 }) };
  const shown = async () => {
    const answer = await clickhouse.query({
      query:
        `select partner_id from events final where client_id = ${client_id} and event_id = ` +
        `'${first.event.event_id}'`,
      format: "JSONEachRow",
    });
    return (await answer.json<{ partner_id: number | null }>()).map(({ partner_id }) => partner_id);
  };
  await write(events, at(second, 8));
  await write(events, at(first, 7));
  expect(await shown()).toEqual([22]);
  const decided = { ...first, version: 2, credit: clickCredit({ partner_id: 23 }) };
  await write(events, at(decided, 1));
  await write(events, at(second, 9));
  expect(await shown(), "a later version stands, wherever it lies").toEqual([23]);
});

test("an event that was decided while Postgres was away is the same state as when it is decided again", async () => {
  const data = attributed(
    { client_id, event_id: uuid(60), ts: noon },
    { credit: clickCredit({ reference_as_of: noon - 5_000 }) },
  );
  await write(events, eventRows(recorded(topics.eventsAttributed, data)));
  const before = await now();
  const again = { ...data, credit: { ...data.credit, reference_as_of: null } };
  await write(events, eventRows(recorded(topics.eventsAttributed, again)));
  expect(await now()).toEqual(before);
});

test("what differs from the same table of another database is shown by its key and its columns", async () => {
  const other = `hashed_${process.pid}_${Date.now()}`;
  await clickhouse.command({ query: `create database ${other}` });
  try {
    await clickhouse.command({ query: `create table ${other}.events as events` });
    await clickhouse.command({
      query: `insert into ${other}.events select * replace (
  if(event_id = '${sales[0]!.event.event_id}', 7, fraud_score) as fraud_score, 0 as log_offset)
from events where event_id != '${sales[1]!.event.event_id}'`,
    });
    expect((await differingRows(clickhouse, "events", other)).toSorted()).toEqual([
      `(${client_id},'${sales[0]!.event.event_id}'): fraud_score 0 / 7`,
      `(${client_id},'${sales[1]!.event.event_id}') is only here`,
    ]);
  } finally {
    await clickhouse.command({ query: `drop database ${other}` });
  }
  await expect(differingRows(clickhouse, "migrations", other)).rejects.toThrow(
    "not a table that is hashed: migrations",
  );
});

test("one lost row and one changed value are another state, and the tables are named", async () => {
  const before = await now();
  await clickhouse.command({
    query: `alter table events delete where client_id = ${client_id} and event_id = '${sales[0]!.event.event_id}'`,
    clickhouse_settings: { mutations_sync: "2" },
  });
  const without = await now();
  expect(differingTables(before, without)).toEqual(["clickhouse.events"]);
  await write(events, rowsOf());
  expect(await now()).toEqual(before);
  const changed = { ...sales[1]!, version: 2, fraud: { ...sales[1]!.fraud, score: 1 } };
  await write(events, eventRows(recorded(topics.eventsAttributed, changed)));
  expect(differingTables(before, await now())).toContain("clickhouse.events");
});

test("every table of the analytics store is hashed or says why not", async () => {
  const answer = await clickhouse.query({
    query:
      "select name from system.tables where database = currentDatabase() and engine not in ('View', " +
      "'MaterializedView')",
    format: "JSONEachRow",
  });
  const names = (await answer.json<{ name: string }>()).map(({ name }) => name);
  const known = [...hashedAnalytics.map(({ name }) => name), ...Object.keys(unhashedAnalytics)];
  expect(names.filter((name) => !known.includes(name))).toEqual([]);
});

test(
  "every column that a hashed table stores is declared, so that none is left out of the hash in " + "silence",
  async () => {
    const answer = await clickhouse.query({
      query: `select table, name from system.columns
      where database = currentDatabase() and default_kind not in ('ALIAS', 'MATERIALIZED', 'EPHEMERAL')`,
      format: "JSONEachRow",
    });
    const inClickhouse = await answer.json<{ table: string; name: string }>();
    const { rows: inPostgres } = await pool.query<{ table: string; name: string }>(
      `select table_name::text as "table", column_name::text as name
      from information_schema.columns where table_schema = current_schema()`,
    );
    const declared = [
      ...hashedAnalytics.map(({ name, columns }) => ({ name, columns: columns.map((column) => column.name) })),
      ...postgresTables.map(({ name, columns }) => ({ name, columns: Object.keys(columns) })),
    ];
    const differing = declared.flatMap(({ name, columns }) => {
      const stored = [...inClickhouse, ...inPostgres].filter(({ table }) => table === name).map((one) => one.name);
      return [
        ...stored.filter((column) => !columns.includes(column)).map((column) => `${name}.${column} is not declared`),
        ...columns.filter((column) => !stored.includes(column)).map((column) => `${name}.${column} is not stored`),
      ];
    });
    expect(differing).toEqual(["events.stored_at is not declared", "ledger_entries.stored_at is not declared"]);
  },
);

test("a table is hashed again with the columns of an earlier release, and its hours add up to it", async () => {
  const { tables, hours } = await stateByHour(pool, clickhouse);
  expect(tables.map(({ table }) => table)).toEqual([...hashableTables]);
  expect(hours.filter(({ table, hour }) => table === "events" && hour !== null).length).toBeGreaterThan(0);
  for (const name of ["events", "conversions"]) {
    const whole = tables.find(({ table }) => table === name)!;
    const fewer = whole.columns!.slice(1);
    const narrow = await stateHash(pool, clickhouse, [name], new Map([[name, fewer]]));
    const compared = await compareReleases(narrow.tables, [whole], async (columns) => {
      return (await stateHash(pool, clickhouse, [...columns.keys()], columns)).tables;
    });
    expect(compared).toMatchObject([{ outcome: "same", rows: whole.rows }]);
  }
});

test("an unknown table is refused by name", async () => {
  await expect(stateHash(pool, clickhouse, ["event"])).rejects.toThrow("event; known: events");
});
