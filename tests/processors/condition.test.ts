// The meaning of a rule's condition, and the conditions that are refused before they are saved.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { maxDepth, maxLeaves, parseCondition } from "../../domain/conditions/condition.ts";
import { compile } from "../../domain/conditions/evaluate.ts";
import { readerOf, Subject } from "../../domain/conditions/fields.ts";
import type { Condition } from "../../domain/reference/reference.ts";
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { scored } from "../support/builders.ts";

interface Given {
  readonly event?: Partial<EventReceived>;
  readonly enrichment?: Partial<Enrichment>;
  readonly props?: unknown;
}
const verdictOn = (condition: unknown, { event = {}, enrichment = {}, props = {} }: Given = {}) => {
  const parsed = parseCondition(condition);
  if (parsed.kind === "problems") throw new Error(JSON.stringify(parsed.problems));
  return compile(parsed.condition)(new Subject(scored({ props: JSON.stringify(props), ...event }, { enrichment })));
};
const matches = (field: string, op: string, value: unknown, given?: Given): boolean =>
  verdictOn({ field, op, value }, given).matches;
const problemsOf = (condition: unknown): readonly string[] => {
  const parsed = parseCondition(condition);
  return parsed.kind === "problems" ? parsed.problems.map(({ code, pointer }) => `${code} ${pointer}`) : [];
};
const isPage = { field: "t", op: "eq", value: "page_view" };
const isMobile = { field: "device", op: "eq", value: "mobile" };

/** JSON in which some letters are written as escapes, with the same meaning. */
const escaped = (text: string, places: readonly number[]): string => {
  const letters = [...text];
  for (const place of places) {
    const at = place % letters.length;
    if (/[a-z]/.test(letters[at]!) && /[^\\]/.test(letters[at - 1] ?? "\\"))
      letters[at] = `\\u${letters[at]!.charCodeAt(0).toString(16).padStart(4, "0")}`;
  }
  return letters.join("");
};
const parsedOr = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

describe("props", () => {
  const names = fc.oneof(fc.constantFrom("coupon", "__proto__", "a b", "ñ", "e", 'q"q', "back\\slash"), fc.string());
  const given = fc.record({
    props: fc.oneof(fc.dictionary(names, fc.jsonValue()), fc.jsonValue()),
    name: names.filter((name) => name !== "" && !name.includes(".")),
    escapes: fc.array(fc.nat(), { maxLength: 3 }),
    cut: fc.option(fc.nat(), { freq: 5 }),
  });
  test("that are not parsed would not have held what was asked for", () =>
    fc.assert(
      fc.property(given, ({ props, name, escapes, cut }) => {
        const whole = escaped(JSON.stringify(props), escapes);
        const text = cut === null ? whole : whole.slice(0, cut % (whole.length + 1));
        const held = parsedOr(text);
        const isObject = typeof held === "object" && held !== null && !Array.isArray(held);
        const expected = isObject && Object.hasOwn(held, name) ? (held as Record<string, unknown>)[name] : undefined;
        const found = readerOf(`props.${name}`)(new Subject(scored({ props: text })));
        expect(found).toEqual(expected ?? undefined);
      }),
    ));
});

describe("the fields", () => {
  const visit: Given = {
    event: {
      source: "pixel",
      url: "https://Shop.Example:8443/summer/sale?utm_source=news&q=a%20b",
      ref: "https://search.example/?q=shoes",
      product_line: "MX",
      value_minor: 100_50n,
      currency: "MXN",
    },
    enrichment: { country: "MX", device: "mobile", browser: "Safari" },
    props: { coupon: "TEN", cart: { items: 3, gift: true } },
  };
  test.each([
    ["t", "page_view"],
    ["source", "pixel"],
    ["url", "https://Shop.Example:8443/summer/sale?utm_source=news&q=a%20b"],
    ["url.host", "shop.example"],
    ["url.path", "/summer/sale"],
    ["url.query.utm_source", "news"],
    ["url.query.q", "a b"],
    ["ref", "https://search.example/?q=shoes"],
    ["ref.host", "search.example"],
    ["country", "MX"],
    ["device", "mobile"],
    ["browser", "Safari"],
    ["product_line", "MX"],
    ["currency", "MXN"],
    ["value", 100.5],
    ["coupon", "TEN"],
    ["props.cart.items", 3],
    ["props.cart.gift", true],
  ])("%s reads %j", (field, value) => expect(matches(field, "eq", value, visit)).toBe(true));

  test("a custom event goes by its own name", () => {
    const signup: Given = { event: { t: "custom", custom_name: "signup" } };
    expect(matches("t", "eq", "signup", signup)).toBe(true);
    expect(matches("t", "eq", "custom", signup)).toBe(false);
  });
  test("a name that every object has is not in the props", () => {
    expect(matches("props.constructor", "exists", true, visit)).toBe(false);
    expect(matches("props.__proto__.toString", "exists", true, visit)).toBe(false);
  });
  test("a URL that is none has no parts, and props that are broken hold nothing", () => {
    expect(matches("url.host", "exists", true, { event: { url: "/relative" } })).toBe(false);
    expect(matches("coupon", "exists", true, { event: { props: "{" } })).toBe(false);
  });
});

describe("a field that is missing", () => {
  const present = {
    gt: 1,
    gte: 1,
    lt: 1,
    lte: 1,
    between: [1, 2],
    eq: "x",
    in: ["x"],
    contains: "x",
    starts_with: "x",
    ends_with: "x",
  };
  test.each([...Object.entries(present), ["exists", true] as const])("is false for %s", (op, value) => {
    expect(matches("props.x", op, value)).toBe(false);
    expect(matches("props.x", op, value, { props: { x: null } })).toBe(false);
  });
  test.each([
    ["ne", "x"],
    ["not_in", ["x"]],
    ["exists", false],
  ])("is true for %s", (op, value) => expect(matches("props.x", op, value)).toBe(true));
  test.each([
    ["eq", 1, false],
    ["ne", 1, true],
    ["in", [1], false],
    ["not_in", [1], true],
    ["lt", 1, false],
    ["gte", 0, false],
    ["between", [0, 1], false],
    ["exists", true, false],
    ["exists", false, true],
  ])("is the same for an amount: %s %j is %s", (op, value, expected) =>
    expect(matches("value", op, value)).toBe(expected),
  );
});

describe("there is no coercion", () => {
  test.each([
    ["eq", "3", 3],
    ["eq", 3, "3"],
    ["eq", true, "true"],
    ["eq", 1, true],
    ["in", ["3"], 3],
    ["gt", 2, "3"],
    ["lt", 4, "3"],
    ["contains", "3", 33],
    ["eq", "a", ["a"]],
    ["gt", "2026-06-01", 1_900_000_000_000],
  ])("%s %j does not match %j", (op, value, x) => expect(matches("props.x", op, value, { props: { x } })).toBe(false));
});

describe("texts", () => {
  const coupon = { props: { coupon: "50%_off" } };
  test.each([
    ["contains", "%_", true],
    ["contains", "50_", false],
    ["contains", "%OFF", false],
    ["starts_with", "50%", true],
    ["starts_with", "%", false],
    ["ends_with", "off", true],
    ["ends_with", "%", false],
    ["eq", "50%_off", true],
    ["eq", "50%_OFX", false],
    ["eq", " 50%_OFF", true],
  ])("are literal, letter by letter: %s %s is %s", (op, value, expected) =>
    expect(matches("coupon", op, value, coupon)).toBe(expected),
  );
});

describe("amounts are exact decimals in the event's currency", () => {
  const amount = (value_minor: bigint, currency: string | null): Given => ({ event: { value_minor, currency } });
  test.each([
    [amount(99_95n, "MXN"), "eq", 99.95, true],
    [amount(30n, "MXN"), "eq", 0.3, true],
    [amount(99_95n, "MXN"), "gt", 99.949, true],
    [amount(99_95n, "MXN"), "gt", 99.951, false],
    [amount(9995n, "JPY"), "eq", 9995, true],
    [amount(9995n, "KWD"), "eq", 9.995, true],
    [amount(100n, null), "eq", 1, true],
    [amount(9_007_199_254_740_993n, "MXN"), "gt", 90_071_992_547_409.9, true],
    [amount(5_00n, "MXN"), "between", [5, 5], true],
    [amount(5_01n, "MXN"), "between", [0, 5], false],
    [amount(5_00n, "MXN"), "in", [1, 5], true],
    [amount(5_00n, "MXN"), "not_in", [1, 5], false],
    [amount(5_00n, "MXN"), "ne", 5, false],
    [amount(5_00n, "MXN"), "lte", 1e21, true],
    [amount(1n, "MXN"), "gt", 1e-21, true],
    [amount(0n, "MXN"), "gte", -0.01, true],
  ])("%o %s %j is %s", (given, op, value, expected) => expect(matches("value", op, value, given)).toBe(expected));
  test("and stand in one order with every number of two decimals", () =>
    fc.assert(
      fc.property(
        fc.integer({ min: -1_000_000, max: 1_000_000 }),
        fc.integer({ min: -1_000_000, max: 1_000_000 }),
        (a, b) => {
          const given = amount(BigInt(a), "MXN");
          expect([
            matches("value", "lt", b / 100, given),
            matches("value", "eq", b / 100, given),
            matches("value", "gt", b / 100, given),
          ]).toEqual([a < b, a === b, a > b]);
        },
      ),
    ));
});

describe("dates are those of Mexico City", () => {
  const on = (x: unknown): Given => ({ props: { x } });
  test.each([
    ["gte", "2026-06-15", "2026-06-15T06:00:00Z", true],
    ["gte", "2026-06-15", "2026-06-15T05:59:59.999Z", false],
    ["lte", "2026-06-15", "2026-06-16T05:59:59.999Z", true],
    ["lte", "2026-06-15", "2026-06-16T06:00:00Z", false],
    ["gt", "2026-06-15", "2026-06-15T23:00:00Z", false],
    ["gt", "2026-06-15", "2026-06-16", true],
    ["lt", "2026-06-15", "2026-06-14", true],
    ["lt", "2026-06-15", "2026-06-15", false],
    // Mexico still had summer time in 2021, so midnight was at 05:00Z.
    ["gte", "2021-07-01", "2021-07-01T05:00:00Z", true],
    ["gte", "2021-07-01", "2021-07-01T04:59:59Z", false],
    ["gt", "2026-06-15T12:00:00Z", "2026-06-15T12:00:00+00:00", false],
    ["gte", "2026-06-15T12:00:00Z", "2026-06-15T06:00:00-06:00", true],
    ["gt", "2026-06-15", "soon", false],
    ["gt", "2026-06-15", "2027-02-30", false],
  ])("%s %s is asked of %s: %s", (op, value, x, expected) =>
    expect(matches("props.x", op, value, on(x))).toBe(expected),
  );
  test("between includes both days", () =>
    expect(
      ["2026-05-31", "2026-06-01", "2026-06-30T23:00:00-06:00", "2026-07-01"].map((x) =>
        matches("props.x", "between", ["2026-06-01", "2026-06-30"], on(x)),
      ),
    ).toEqual([false, true, true, false]));
});

describe("the leaf that decided", () => {
  test("of all is the first that failed, else the last", () => {
    expect(verdictOn({ all: [isPage, isMobile] })).toEqual({ matches: false, path: "/all/1" });
    expect(verdictOn({ all: [isMobile, isPage] })).toEqual({ matches: false, path: "/all/0" });
    expect(verdictOn({ all: [isPage, isMobile] }, { enrichment: { device: "mobile" } })).toEqual({
      matches: true,
      path: "/all/1",
    });
  });
  test("of any is the first that held, else the last", () => {
    expect(verdictOn({ any: [isMobile, isPage] })).toEqual({ matches: true, path: "/any/1" });
    expect(verdictOn({ any: [isMobile, isMobile] })).toEqual({ matches: false, path: "/any/1" });
  });
  test("is named through not and nested groups", () => {
    expect(verdictOn({ not: { any: [isMobile, { all: [isPage] }] } })).toEqual({
      matches: false,
      path: "/not/any/1/all/0",
    });
    expect(verdictOn(isPage)).toEqual({ matches: true, path: "" });
  });
});

const anyLeaf = fc.constantFrom<Condition>(
  { field: "t", op: "eq", value: "page_view" },
  { field: "device", op: "eq", value: "mobile" },
  { field: "props.n", op: "gt", value: 3 },
  { field: "country", op: "in", value: ["MX", "US"] },
  { field: "value", op: "gte", value: 1.5 },
);
const anyCondition: fc.Arbitrary<Condition> = fc.letrec<{ node: Condition }>((tie) => ({
  node: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    anyLeaf,
    fc.array(tie("node"), { minLength: 1, maxLength: 3 }).map((all) => ({ all })),
    fc.array(tie("node"), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
    tie("node").map((not) => ({ not })),
  ),
})).node;
const anySubject = fc.record({
  event: fc.record({
    t: fc.constantFrom("page_view", "purchase"),
    value_minor: fc.constantFrom(null, 100n, 200n),
    currency: fc.constant("MXN"),
  }),
  enrichment: fc.record({ device: fc.constantFrom("mobile", "desktop"), country: fc.constantFrom(null, "MX", "ES") }),
  props: fc.record({ n: fc.constantFrom(1, 5, "5") }),
});
/** The meaning, evaluated leaf by leaf in the simplest code. */
const plainly = (condition: Condition, given: Given): boolean => {
  if ("all" in condition) return condition.all.every((part) => plainly(part, given));
  if ("any" in condition) return condition.any.some((part) => plainly(part, given));
  return "not" in condition
    ? !plainly(condition.not, given)
    : matches(condition.field, condition.op, condition.value, given);
};
const shallowEnough = (condition: Condition): boolean => parseCondition(condition).kind === "condition";

describe("whatever the condition", () => {
  test("the closure says what its leaves say, and names a leaf whose own verdict explains it", () =>
    fc.assert(
      fc.property(anyCondition.filter(shallowEnough), anySubject, (condition, given) => {
        const verdict = verdictOn(condition, given);
        expect(verdict.matches).toBe(plainly(condition, given));
        const steps = verdict.path.split("/").slice(1);
        const leaf = steps.reduce<any>((node, step) => node[step], condition);
        const flips = steps.filter((step) => step === "not").length;
        expect(plainly(leaf, given)).toBe(flips % 2 === 0 ? verdict.matches : !verdict.matches);
      }),
    ));
  test("a text in place of anything is refused or understood, and never stops the check", () =>
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const parsed = parseCondition(value);
        if (parsed.kind === "problems")
          expect(parsed.problems.every(({ pointer }) => pointer === "" || pointer.startsWith("/"))).toBe(true);
        else compile(parsed.condition);
      }),
    ));
});

describe("what is refused, with its place", () => {
  test.each([
    ["nothing", null, "bad_condition "],
    ["a list", [], "bad_condition "],
    ["an empty object", {}, "unknown_field /field"],
    ["an empty group", { all: [] }, "empty_group /all"],
    ["a group that is no list", { any: isPage }, "empty_group /any"],
    ["two groups in one", { all: [isPage], any: [isPage] }, "unknown_key /any"],
    ["a stranger beside a comparison", { ...isPage, "a/b": 1 }, "unknown_key /a~1b"],
    ["a field that does not exist", { any: [isPage, { ...isPage, field: "email" }] }, "unknown_field /any/1/field"],
    ["a field of every object", { ...isPage, field: "constructor" }, "unknown_field /field"],
    ["an empty step in a path", { ...isPage, field: "props.a..b" }, "unknown_field /field"],
    ["a query parameter without a name", { ...isPage, field: "url.query." }, "unknown_field /field"],
    ["a regular expression", { ...isPage, op: "matches" }, "unknown_op /op"],
    ["an order of texts", { ...isPage, op: "gt" }, "bad_op /op"],
    ["a part of an amount", { field: "value", op: "contains", value: "1" }, "bad_op /op"],
    ["a number for a text", { ...isPage, value: 1 }, "bad_value /value"],
    ["a text for an amount", { field: "value", op: "gte", value: "100.00" }, "bad_value /value"],
    ["no value", { field: "t", op: "eq" }, "bad_value /value"],
    ["null", { field: "props.x", op: "eq", value: null }, "bad_value /value"],
    ["an empty list", { field: "t", op: "in", value: [] }, "bad_value /value"],
    ["a wrong item", { not: { field: "t", op: "in", value: ["a", 1] } }, "bad_value /not/value/1"],
    ["an empty text to contain", { field: "t", op: "contains", value: "" }, "bad_value /value"],
    ["existence of a third kind", { field: "t", op: "exists", value: "yes" }, "bad_value /value"],
    ["a day that no calendar has", { field: "props.d", op: "gte", value: "2026-02-30" }, "bad_value /value"],
    ["a stretch of one end", { field: "value", op: "between", value: [1] }, "bad_value /value"],
    ["a stretch backwards", { field: "value", op: "between", value: [2, 1] }, "bad_value /value"],
    [
      "a stretch from a number to a day",
      { field: "props.d", op: "between", value: [1, "2026-01-01"] },
      "bad_value /value",
    ],
  ])("%s", (_, condition, problem) => expect(problemsOf(condition)).toContain(problem));

  test("all faults are reported at once", () =>
    expect(
      problemsOf({ all: [{ ...isPage, field: "x" }, { ...isPage, op: "x" }, { not: { ...isPage, value: 1 } }] }),
    ).toEqual(["unknown_field /all/0/field", "unknown_op /all/1/op", "bad_value /all/2/not/value"]));
  test("more comparisons than the limit", () => {
    expect(problemsOf({ all: Array(maxLeaves).fill(isPage) })).toEqual([]);
    expect(problemsOf({ all: Array(maxLeaves + 1).fill(isPage) })).toEqual([`too_many_leaves /all/${maxLeaves}`]);
    expect(problemsOf({ any: [{ all: Array(60).fill(isPage) }, { all: Array(60).fill(isPage) }] })).toEqual([
      "too_many_leaves /any/1/all/40",
    ]);
  });
  test("deeper nesting than the limit", () => {
    const nested = (depth: number): unknown => (depth === 1 ? isPage : { not: nested(depth - 1) });
    expect(problemsOf(nested(maxDepth))).toEqual([]);
    expect(problemsOf(nested(maxDepth + 1))).toEqual([`too_deep ${"/not".repeat(maxDepth)}`]);
    expect(problemsOf(nested(1_000))).toHaveLength(1);
  });
});
