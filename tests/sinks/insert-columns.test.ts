// Which columns an insert into ClickHouse names.
import fc from "fast-check";
import { expect, test } from "vitest";
import { withoutEmpty } from "../../sinks/clickhouse/store.ts";

test("columns that are null in every row are left out, the others keep their order", () => {
  const given = withoutEmpty(
    ["a", "b", "c"],
    [
      [1, null, null],
      [2, null, "x"],
    ],
  );
  expect(given).toEqual({
    columns: ["a", "c"],
    rows: [
      [1, null],
      [2, "x"],
    ],
  });
});

test("whatever the rows, what was given is what is named, and the rest is null", () => {
  const columns = ["a", "b", "c", "d"];
  const row = fc.tuple(...columns.map(() => fc.oneof(fc.constant(null), fc.integer(), fc.constant(false), fc.constant(""))));
  fc.assert(
    fc.property(fc.array(row, { minLength: 1 }), (rows) => {
      const given = withoutEmpty(columns, rows);
      const back = given.rows.map((values) => columns.map((name) => values[given.columns.indexOf(name)] ?? null));
      expect(back).toEqual(rows);
    }),
  );
});
