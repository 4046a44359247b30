// The sentence that describes a condition.
import { expect, test } from "vitest";
import { maxLeaves, parseCondition } from "../../domain/conditions/condition.ts";
import { phraseOf } from "../../domain/conditions/sentence.ts";
import type { Condition, Operator } from "../../domain/reference/reference.ts";

const leaf = (field: string, op: Operator, value: unknown): Condition => ({ field, op, value });

test("every comparison reads as a clause", () => {
  const clauses: readonly (readonly [Condition, string])[] = [
    [leaf("t", "eq", "purchase"), 'type is "purchase"'],
    [leaf("country", "ne", "MX"), 'country is not "MX"'],
    [leaf("coupon", "in", ["A", "B"]), 'coupon is one of "A", "B"'],
    [leaf("props.n", "not_in", [1, true]), "props.n is none of 1, true"],
    [leaf("url", "contains", "/x"), 'url contains "/x"'],
    [leaf("url.path", "starts_with", "/x"), 'url.path begins with "/x"'],
    [leaf("ref.host", "ends_with", ".mx"), 'ref.host ends with ".mx"'],
    [leaf("value", "gte", 10.5), "value is at least 10.5"],
    [leaf("props.day", "gt", "2026-01-01"), 'props.day is after "2026-01-01"'],
    [leaf("props.day", "lte", "2026-01-01"), 'props.day is on or before "2026-01-01"'],
    [leaf("value", "between", [1, 2]), "value is between 1 and 2"],
    [leaf("coupon", "exists", true), "coupon is there"],
    [leaf("coupon", "exists", false), "coupon is missing"],
  ];
  expect(clauses.map(([condition]) => phraseOf(condition))).toEqual(clauses.map(([, text]) => text));
});

test("groups have brackets where two readings would differ, and only there", () => {
  const [a, b, c] = ["A", "B", "C"].map((value) => leaf("coupon", "eq", value)) as [Condition, Condition, Condition];
  const [one, two, three] = ["A", "B", "C"].map((value) => `coupon is "${value}"`);
  expect(phraseOf({ all: [a, { all: [b, c] }] })).toBe(`${one} and ${two} and ${three}`);
  expect(phraseOf({ all: [a, { any: [b, c] }] })).toBe(`${one} and (${two} or ${three})`);
  expect(phraseOf({ any: [{ all: [a] }, { not: { any: [b, c] } }] })).toBe(`${one} or not (${two} or ${three})`);
});

test("long lists and long texts are shortened, by letters and not by halves of them", () => {
  const values = Array.from({ length: 1_000 }, (_, n) => n);
  expect(phraseOf(leaf("props.n", "in", values))).toBe("props.n is one of 0, 1, 2, 3, 4, 995 more");
  const text = phraseOf(leaf("coupon", "eq", "😀".repeat(100)));
  expect(text).toBe(`coupon is "${"😀".repeat(60)}…"`);
});

test("a group of more parts than comparisons are allowed is one fault, whatever its parts are", () => {
  for (const part of [[], null, {}, leaf("t", "eq", "x")]) {
    const parsed = parseCondition({ all: Array(60_000).fill(part) });
    expect(parsed).toMatchObject({ kind: "problems", problems: [{ pointer: "/all/100", code: "too_many_leaves" }] });
  }
  expect(parseCondition({ all: Array(maxLeaves).fill(leaf("t", "eq", "x")) }).kind).toBe("condition");
});
