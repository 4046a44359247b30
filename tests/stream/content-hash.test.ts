// The hash of a stored row never changes, whichever way it is computed.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { contentHash } from "../../sinks/shared-columns.ts";

/** The computation of the code before November 2026. */
const before = (values: readonly unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value)))
    .digest("hex");

test("whatever a row says has the hash that it always had", () => {
  const line = fc.record({
    account: fc.string({ unit: fc.constantFrom(...'a"\\{,ñ€😀') }),
    amount_minor: fc.bigInt().map(String),
  });
  const plain = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'a"\\{,ñ€😀') }),
    fc.integer(),
    fc.bigInt(),
    fc.boolean(),
    fc.constant(null),
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(plain, fc.array(line))), (values) => {
      expect(contentHash(values)).toBe(before(values));
    }),
    { numRuns: 50 },
  );
});
