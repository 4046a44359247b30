// The requests a minute of each plan, and the ClickHouse columns that a role's query names.
import { expect, test } from "vitest";
import { limitOf } from "../../apps/api/limits.ts";
import { count, only, scopeOf, select, text } from "../../infra/clickhouse/query.ts";

test("an unknown plan has the usual limit, and a heavy request the small one in every plan", () => {
  expect([limitOf("client_user", undefined, false), limitOf("admin", "anything", false)]).toEqual([600, 600]);
  expect([limitOf("client_user", "enterprise", false), limitOf("client_user", "enterprise", true)]).toEqual([
    3_000, 60,
  ]);
});
test("a column that a role is not shown is not in the statement", () => {
  const columns = { day: text("toDate(bucket)"), clicks: count("sum(clicks)"), revenue: count("sum(revenue_minor)") };
  const query = select(scopeOf(7), { from: "rollups", columns: only(columns, ["day", "clicks"]) });
  expect(query.text).toContain("sum(clicks)");
  expect(query.text).not.toContain("revenue");
});
