// The law of a rule's condition: the live closure and the SQL expression pick the same events, for
// all conditions and rows.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseCondition } from "../../domain/conditions/condition.ts";
import { compile } from "../../domain/conditions/evaluate.ts";
import { Subject } from "../../domain/conditions/fields.ts";
import type { Condition } from "../../domain/reference/reference.ts";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { conditionTexts } from "../../schemas/generated-fields.ts";
import { matching } from "../../sinks/analytics/condition-sql.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, enrichment, received, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
let clickhouse: Clickhouse;
beforeAll(() => {
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
});
afterAll(() => clickhouse.close());

let lastTenant = 2_000_000_000 + (Date.now() % 1_000_000) * 100;
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;

// Values that rows and conditions share, so that they match: limits of every kind of value, and
// values that the two sides might read differently.
const words = [
  "",
  "a",
  "A",
  "ñ",
  "50%_off",
  "50%",
  "_off",
  "x.y",
  "\\",
  "'",
  '"',
  "\t\n",
  "{p0:String}",
  "🦩",
  "-",
  "mobile",
  "shop.example",
  " A",
  "a\u00a0\n",
  "Ñ",
  "ΣЖ",
  "σж ",
  "\u0130",
];
const numbers = [
  0,
  1,
  -1,
  3,
  0.1,
  0.3,
  2.5,
  1e-7,
  1e21,
  -1e21,
  1e20,
  2 ** 53,
  123_456_789_012_345_680_000,
  5e-324,
  1.7e308,
];
const dates = [
  "2026-06-15",
  "2026-06-16",
  "2026-06-15T05:59:59.999Z",
  "2026-06-15T06:00:00Z",
  "2026-06-15T00:00:00-06:00",
  "2026-06-16T05:59:59.9999Z",
  "2026-06-15T12:00:00.123456789+05:45",
  "2021-04-04",
  "2021-10-31",
  "2021-07-01T05:00:00Z",
  "2024-02-29",
  "2100-02-29",
  "2026-02-30",
  "2026-02-30T00:00:00Z",
  "2026-06-15T24:00:00Z",
  "2026-06-15T00:60:00Z",
  "2026-06-15T00:00:00+24:00",
  "1900-01-01",
  "0099-12-31",
  "0100-01-01",
  "9999-12-30",
  "9999-12-31",
  "9999-12-31T00:00:00Z",
  "2026-6-15",
  "2026-06-15T06:00Z",
];
const word = fc.oneof(
  fc.constantFrom(...words),
  fc.string({ unit: "grapheme", maxLength: 4 }).filter((it) => !/\p{Surrogate}|\0/u.test(it)),
);
const number = fc.oneof(
  fc.constantFrom(...numbers),
  fc.integer({ min: -5, max: 5 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((it) => (it === 0 ? 0 : it)),
);
const date = fc.oneof(
  fc.constantFrom(...dates),
  fc
    .date({ min: new Date("1890-01-01"), max: new Date("2310-01-01"), noInvalidDate: true })
    .map((it) => it.toISOString()),
  fc
    .date({ min: new Date("1890-01-01"), max: new Date("2310-01-01"), noInvalidDate: true })
    .map((it) => it.toISOString().slice(0, 10)),
);
const url = fc.oneof(
  fc.constantFrom(
    "https://Shop.Example:8443/summer/sale?utm_source=news&q=a%20b#top",
    "https://user:pass@shop.example/?q=a+b&q=second",
    "https://shop.example?q=%C3%B1&x",
    "https://shop.example/?q=%ff&utm_source=%zz",
    "https://shop.example/?q=%f0%9f%a6%a9%4&=v&&utm_source",
    "https://shop.example/?utm%5fsource=news&q=a=b",
    "https://[::1]:80/x",
    "android-app://com.example.shop/a",
    "https://münchen.example/größe?q=größe",
    "HTTPS://A.example",
    "https:///nohost",
    "https://a.example:port/",
    "https://a@b@c.example/",
    "/relative?q=a",
    "mailto:a",
    " https://shop.example/",
    "https://shop.example/a\\b?q=\\",
    "https://shop.example/%41?q=%41%2B+%2b",
    "",
  ),
  fc
    .tuple(
      fc.constantFrom("https://", "http://", "x:", "//", ""),
      fc.stringMatching(/^[a-zA-Z.:@/?#&=%+0-9[\]ñ ]{0,12}$/),
    )
    .map((it) => it.join("")),
);
const value: fc.Arbitrary<unknown> = fc.oneof(
  word,
  number,
  date,
  fc.boolean(),
  fc.constant(null),
  fc.array(number, { maxLength: 3 }),
  fc.record({ y: fc.oneof(word, number, fc.boolean()) }, { requiredKeys: [] }),
);
const props = fc.oneof(
  {
    weight: 9,
    arbitrary: fc
      .record({ x: value, "ñ k": value, coupon: value, length: value }, { requiredKeys: [] })
      .map((it) => JSON.stringify(it)),
  },
  { weight: 1, arbitrary: fc.constantFrom("{", "[]", '["x"]', '"x"', "null", "7", "") },
);
const orNull = <T>(it: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(it, { freq: 4 });
const amounts = [
  0n,
  1n,
  -1n,
  99_95n,
  100_00n,
  9_007_199_254_740_993n,
  9_223_372_036_854_775_807n,
  -9_223_372_036_854_775_808n,
];
/**
 * Random texts for every field that a condition may use; the fields below have a fixed set of
 * values.
 */
const someTexts = Object.fromEntries(
  Object.keys(conditionTexts)
    .filter((name) => name in received())
    .map((name) => [name, orNull(word)]),
);
const event = fc.record({
  ...someTexts,
  t: fc.constantFrom("purchase", "custom", "page_view"),
  custom_name: orNull(fc.constantFrom("signup", "purchase")),
  source: fc.constantFrom("batch", "pixel", "generic:ñ"),
  url: orNull(url),
  ref: orNull(url),
  product_line: orNull(fc.constantFrom("MX", "VD")),
  value_minor: orNull(fc.oneof(fc.constantFrom(...amounts), fc.bigInt({ min: -1_000n, max: 1_000n }))),
  currency: orNull(fc.constantFrom("MXN", "USD", "JPY", "KWD", "CLF", "???")),
  props,
});
const looked = fc.record({
  country: orNull(fc.constantFrom("MX", "US")),
  region: orNull(fc.constantFrom("CMX", "MX")),
  city: orNull(fc.constantFrom("a b", "news")),
  device: fc.constantFrom("mobile", "desktop", "unknown"),
  browser: orNull(fc.constantFrom("Safari", "Chrome")),
});

const textField = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom("t", "url.host", "url.path", "ref.host", "coupon", ...Object.keys(conditionTexts)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom("url.query.q", "url.query.utm_source", "url.query.x", "url.query.'"),
  },
);
const someText = fc.oneof(
  word,
  url,
  date,
  fc.constantFrom(
    "purchase",
    "custom",
    "signup",
    "batch",
    "MX",
    "US",
    "VD",
    "MXN",
    "JPY",
    "mobile",
    "Safari",
    "a b",
    "news",
    "/",
    "com.example.shop",
  ),
);
const nonEmpty = someText.filter((it) => it !== "");
const exists = fc.record({ op: fc.constant("exists"), value: fc.boolean() });
const part = fc.record({ op: fc.constantFrom("contains", "starts_with", "ends_with"), value: nonEmpty });
const equal = <T>(it: fc.Arbitrary<T>) =>
  fc.oneof(
    fc.record({ op: fc.constantFrom("eq", "ne"), value: it }),
    fc.record({ op: fc.constantFrom("in", "not_in"), value: fc.array(it, { minLength: 1, maxLength: 4 }) }),
  );
const ordered = <T>(it: fc.Arbitrary<T>) =>
  fc.oneof(
    fc.record({ op: fc.constantFrom("gt", "gte", "lt", "lte"), value: it }),
    fc.record({ op: fc.constant("between"), value: fc.tuple(it, it) }),
  );
const of = (field: fc.Arbitrary<string>, comparison: fc.Arbitrary<{ op: string; value: unknown }>) =>
  fc.tuple(field, comparison).map(([name, it]) => ({ field: name, ...it }));
const leaf = fc
  .oneof(
    of(textField, fc.oneof(exists, part, equal(someText)) as fc.Arbitrary<{ op: string; value: unknown }>),
    of(
      fc.constant("value"),
      fc.oneof(exists, equal(number), ordered(number)) as fc.Arbitrary<{ op: string; value: unknown }>,
    ),
    of(
      fc.constantFrom(
        "props.x",
        "props.ñ k",
        "props.x.y",
        "props.length",
        "props.x.length",
        "props.x.0",
        "props.coupon",
        "props.none",
      ),
      fc.oneof(
        exists,
        part,
        equal(fc.oneof(someText, number, fc.boolean())),
        ordered(number),
        ordered(date),
      ) as fc.Arbitrary<{
        op: string;
        value: unknown;
      }>,
    ),
  )
  .filter((it) => parseCondition(it).kind === "condition") as fc.Arbitrary<Condition>;
const condition: fc.Arbitrary<Condition> = fc
  .letrec<{ node: Condition }>((tie) => ({
    node: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      leaf,
      fc.array(tie("node"), { minLength: 1, maxLength: 3 }).map((all) => ({ all })),
      fc.array(tie("node"), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
      tie("node").map((not) => ({ not })),
    ),
  }))
  .node.filter((it) => parseCondition(it).kind === "condition");

const store = async (rows: readonly EventAttributed[]): Promise<number> => {
  const tenant = ++lastTenant;
  const given = rows.map((row) => ({ ...row, event: { ...row.event, client_id: tenant } }));
  await clickhouseStore(clickhouse).within({ tenants: [tenant], token: `condition-sql/${tenant}` }, (write) =>
    events.write(
      given.flatMap((data) => eventRows(recorded(topics.eventsAttributed, data))),
      write,
    ),
  );
  return tenant;
};
const pickedBySql = async (tenant: number, asked: Condition): Promise<readonly string[]> => {
  const rows = await readRows(clickhouse, scopeOf(tenant), {
    from: "events",
    columns: { id: text("event_id") },
    where: [matching(asked)],
    orderBy: ["event_id"],
  });
  return rows.map(({ id }) => id);
};
const pickedByClosure = (rows: readonly EventAttributed[], asked: Condition): readonly string[] => {
  const evaluate = compile(asked);
  return rows.filter((row) => evaluate(new Subject(row)).matches).map((row) => row.event.event_id);
};
const rowsOf = (
  given: readonly (readonly [Partial<EventAttributed["event"]>, Partial<EventAttributed["enrichment"]>])[],
) =>
  given.map(([one, more], n) => ({
    ...attributed(),
    event: received({ ...one, event_id: uuid(n + 1) }),
    enrichment: enrichment(more),
  }));

describe("the closure and the query pick the same events", () => {
  test("for single comparisons of every field and operator", async () => {
    const rows = rowsOf(fc.sample(fc.tuple(event, looked), 400));
    let telling = 0;
    const tenant = await store(rows);
    await fc.assert(
      fc.asyncProperty(leaf, async (asked) => {
        const picked = await pickedBySql(tenant, asked);
        expect(picked).toEqual(pickedByClosure(rows, asked));
        if (picked.length > 0 && picked.length < rows.length) telling += 1;
      }),
      { numRuns: 400 },
    );
    // Conditions that pick all rows or none would prove little.
    expect(telling).toBeGreaterThan(40);
  });
  test("for trees of them", async () => {
    const rows = rowsOf(fc.sample(fc.tuple(event, looked), 200));
    const tenant = await store(rows);
    await fc.assert(
      fc.asyncProperty(condition, async (asked) => {
        expect(await pickedBySql(tenant, asked)).toEqual(pickedByClosure(rows, asked));
      }),
      { numRuns: 150 },
    );
  });
  test("for the largest condition that can be saved", async () => {
    const rows = rowsOf(fc.sample(fc.tuple(event, looked), 50));
    const tenant = await store(rows);
    const long = Array.from({ length: 200 }, (_, n) => `${n}`.padEnd(60, "ñ"));
    const kinds: readonly Condition[] = [
      { field: "url.query.utm_source", op: "not_in", value: long },
      { field: "props.x.y", op: "between", value: ["2020-01-01", "2030-12-31T00:00:00Z"] },
      { field: "value", op: "between", value: [-1e15, 1e15] },
      { field: "props.none", op: "not_in", value: long },
    ];
    const asked: Condition = { any: Array.from({ length: 100 }, (_, n) => kinds[n % kinds.length]!) };
    expect(await pickedBySql(tenant, asked)).toEqual(pickedByClosure(rows, asked));
  });
});
