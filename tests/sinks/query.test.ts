// A query on tenants' rows cannot be built without its clients, and no condition can widen it (law
// T5).
import { expect, test } from "vitest";
import { bind, type ClientScope, cond, count, scopeOf, select, text } from "../../infra/clickhouse/query.ts";

const columns = { n: count("count()") };

test("a query without a scope is refused, and so is one that somebody made by hand", () => {
  expect(() => select(undefined as unknown as ClientScope, { from: "events", columns })).toThrow(
    "without a client scope",
  );
  expect(() => select({ clients: [1] }, { from: "events", columns })).toThrow("without a client scope");
});

test("a scope names at least one client, each by its id", () => {
  expect(() => scopeOf()).toThrow("at least one client");
  for (const id of [0, -1, 1.5, Number.NaN, 2 ** 32]) expect(() => scopeOf(id)).toThrow(`not a client id: ${id}`);
});

test("a scope cannot be widened once it is made", () => {
  const scope = scopeOf(1);
  expect(() => (scope.clients as number[]).push(2)).toThrow(TypeError);
});

test("the scope comes first, values are bound, and each condition stays inside its brackets", () => {
  const built = select(scopeOf(7, 8), {
    from: "events_current",
    columns: { t: text("t"), n: count("count()") },
    where: [cond`t = ${bind("String", "x' or 1")} or fraud_score > ${bind("UInt8", 40)}`, cond`is_bot`],
    groupBy: ["t"],
    orderBy: ["n desc"],
    limit: 10,
  });
  expect(built).toEqual({
    text: [
      "select toString(t) as `t`, count() as `n`",
      "from events_current",
      "where (events_current.client_id in {scope:Array(UInt32)}) and (t = {p1:String} or fraud_score > " +
        "{p2:UInt8}) and (is_bot)",
      "group by `t`",
      "order by n desc",
      "limit 10",
      "settings prefer_column_name_to_alias = 1, do_not_merge_across_partitions_select_final = 1",
    ].join("\n"),
    params: { scope: [7, 8], p1: "x' or 1", p2: 40 },
  });
});

test.each(["1) or (1", "t in (select t from events)", "1 -- ", "1; drop table events", "1 union all", "1 /* "])(
  "an expression that could leave the scope is refused: %s",
  (expression) => {
    expect(() => select(scopeOf(1), { from: "events", columns, where: [{ expression, values: [] }] })).toThrow(
      /are taken|do not match/,
    );
    expect(() => select(scopeOf(1), { from: "events", columns: { n: count(expression) } })).toThrow(
      /are taken|do not match/,
    );
  },
);
