// The store reads a block as the rows that made it, and each column has the same type in the code
// and in the store.
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { eventColumns } from "../../sinks/analytics/generated.ts";
import { type EventRow, events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { sharedStack } from "../support/shared-stack.ts";

const clickhouse = openClickhouse(sharedStack().env.CLICKHOUSE_URL!);
afterAll(() => clickhouse.close());

const select = async <T>(query: string): Promise<readonly T[]> =>
  (
    await clickhouse.query({ query, format: "JSONEachRow", clickhouse_settings: { date_time_output_format: "iso" } })
  ).json<T>();

test("each column has the type that it has in the store", async () => {
  const stored = await select<{ name: string; type: string }>(
    "select name, type from system.columns where database = currentDatabase() and table = 'events' " +
      "and default_kind not in ('ALIAS', 'MATERIALIZED')",
  );
  const plain = (type: string) => type.replace(/LowCardinality\((.*)\)/, "$1");
  const written = stored.filter(({ name }) => name !== "stored_at").map(({ name, type }) => [name, plain(type)]);
  expect(Object.fromEntries(written)).toEqual(Object.fromEntries(eventColumns.map(({ name, type }) => [name, type])));
});

const client_id = 4_000_000_000;
const text = fc.string({ unit: "grapheme", maxLength: 150 });
const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null });
const someOf: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  UInt8: fc.nat(255),
  UInt16: fc.nat(65_535),
  UInt32: fc.nat(2 ** 32 - 1),
  UInt64: fc.nat(2 ** 40),
  Int32: fc.integer(),
  Int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  Bool: fc.boolean(),
  UUID: fc.uuid(),
  String: text,
  "Array(String)": fc.array(text, { maxLength: 3 }),
  "DateTime64(3, 'UTC')": fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2100, 0) }),
};
const arbitraryOf = (type: string): fc.Arbitrary<unknown> => {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1];
  return inner === undefined ? someOf[type]! : orNull(someOf[inner]!);
};
/** The JSON form in which the store writes a value. */
const asJson = (type: string, value: unknown): unknown => {
  if (value === null) return null;
  if (type.includes("DateTime64")) return new Date(value as number).toISOString();
  return type === "UInt64" ? String(value) : value;
};

test("whatever a row holds, the store reads it back", async () => {
  const names = eventColumns.map(({ name, type }) => [name, type] as const);
  const row = fc.tuple(
    ...names.map(([name, type]) => (name === "client_id" ? fc.constant(client_id) : arbitraryOf(type))),
  );
  let round = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(row, { minLength: 1, maxLength: 20, selector: (values) => values[1] }),
      async (rows) => {
        // All rows are in one month, because an insert may have parts in at most a hundred.
        const ts = Date.UTC(2026, 6, 1) + round++;
        const given = rows.map((values) => values.map((value, n) => (names[n]![0] === "ts" ? ts : value)));
        // The rows have no event, so they are written by their values.
        const made = given.map((values) => ({ values }) as unknown as EventRow);
        await clickhouseStore(clickhouse).insert(events, made, `native ${ts} ${Math.random()}`);
        const stored = await select<Record<string, unknown>>(
          `select ${names.map(([name]) => name).join(", ")} from events where client_id = ${client_id} and ` +
            `ts = fromUnixTimestamp64Milli(${ts})`,
        );
        const byId = new Map(stored.map((one) => [one.event_id, one]));
        for (const values of given)
          expect(byId.get(values[1])).toEqual(
            Object.fromEntries(names.map(([name, type], n) => [name, asJson(type, values[n])])),
          );
      },
    ),
    { numRuns: 20 },
  );
  await clickhouse.command({
    query: `alter table events delete where client_id = ${client_id}`,
    clickhouse_settings: { mutations_sync: "2" },
  });
});
