// Derived ids are always the same for the same parts, and differ for different parts.
import fc from "fast-check";
import { expect, test } from "vitest";
import { derivedId, prefixed, uuidOf } from "../../domain/ids.ts";

const parts = fc.array(fc.oneof(fc.string(), fc.integer()), { minLength: 1, maxLength: 5 });

test("an id is a version 8 UUID of RFC 9562", () => {
  fc.assert(
    fc.property(parts, (list) =>
      /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuidOf(...list)),
    ),
  );
});

test("an id never changes: what is in the log stays findable", () => {
  expect(uuidOf(7, "order-1")).toBe("c6f08f53-2667-8c16-a9ac-e592f2c19f2b");
  expect(derivedId("settle", "a", "conversions", 0)).toBe(uuidOf("settle", "a", "conversions", 0));
});

test("parts that join to one text make different ids", () => {
  expect(uuidOf("ab", "c")).not.toBe(uuidOf("a", "bc"));
  expect(uuidOf("1:a")).not.toBe(uuidOf("1", "a"));
  fc.assert(
    fc.property(parts, parts, (one, other) => {
      fc.pre(JSON.stringify(one.map(String)) !== JSON.stringify(other.map(String)));
      return uuidOf(...one) !== uuidOf(...other);
    }),
  );
});

test("a prefixed id is its kind and 32 digits", () => {
  expect(prefixed("cnv", uuidOf("x"))).toMatch(/^cnv_[0-9a-f]{32}$/);
});
