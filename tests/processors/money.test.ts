// Law M11: rounding half to even once, parts that sum to the total, currencies with 0, 2 and 3
// decimals.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { digitsOf, divideHalfEven, MAX_MINOR, split, toDecimal, toMinor } from "../../domain/money.ts";

const currencies = fc.constantFrom("JPY", "MXN", "USD", "KWD", "CLF");
const minor = fc.bigInt({ min: -MAX_MINOR, max: MAX_MINOR });
const amount = (value: bigint, isRounded = false) => ({ kind: "amount", minor: value, isRounded });

describe("reading", () => {
  test("a written amount is read back as the same", () => {
    fc.assert(
      fc.property(minor, currencies, (value, currency) => {
        expect(toMinor(toDecimal(value, currency), currency)).toEqual(amount(value));
      }),
    );
  });

  test("a number with the digits of its currency is exact, however binary fractions fall", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), currencies, (units, currency) => {
        const text = toDecimal(BigInt(units), currency);
        expect(toMinor(Number(text), currency)).toEqual(amount(BigInt(units)));
      }),
    );
  });

  test.each([
    [0.1 + 0.2, "MXN", 30n, true],
    [1.005, "MXN", 100n, true],
    [1.015, "MXN", 102n, true],
    [1.025, "MXN", 102n, true],
    [-1.015, "MXN", -102n, true],
    [2.5, "JPY", 2n, true],
    [3.5, "JPY", 4n, true],
    [1.2345, "KWD", 1234n, true],
    [1e-7, "MXN", 0n, true],
    [5e-324, "MXN", 0n, true],
    [-0, "MXN", 0n, false],
    [1299.5, "MXN", 129950n, false],
  ])("the number %d %s is %d minor units", (value, currency, expected, isRounded) => {
    expect(toMinor(value, currency)).toEqual(amount(expected, isRounded));
  });

  test.each([
    ["1234.50", "MXN", 123450n],
    ["1234", "MXN", 123400n],
    ["-0", "MXN", 0n],
    ["1.2", "KWD", 1200n],
    ["17", "JPY", 17n],
  ])("the text %s %s is %d minor units", (value, currency, expected) =>
    expect(toMinor(value, currency)).toEqual(amount(expected)),
  );

  test.each([
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1e21,
    -1e21,
    1e308,
    2 ** 53,
    "1.005",
    "1.000,00",
    "12,5",
    "1e5",
    "",
    " 1",
    "+1",
    ".5",
    "5.",
    "0x10",
    "1".repeat(40),
  ])("%s is refused", (value) => expect(toMinor(value, "MXN").kind).toBe("bad_amount"));

  test("any text is an answer, never an exception", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.double()), currencies, (value, currency) =>
        ["amount", "bad_amount"].includes(toMinor(value, currency).kind),
      ),
    );
  });

  test("codes without minor units are no currencies", () => {
    expect(["XXX", "XAU", "mxn", "EURO", ""].map(digitsOf)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(() => toMinor(1, "XXX")).toThrow(RangeError);
  });
});

describe("dividing", () => {
  test("a quotient lies within half a unit, and a half goes to the even one", () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }),
        fc.bigInt({ min: 1n, max: 10n ** 6n }),
        fc.boolean(),
        (over, size, isNegative) => {
          const under = isNegative ? -size : size;
          const quotient = divideHalfEven(over, under);
          const twiceOff = 2n * (over - quotient * under) * (isNegative ? -1n : 1n);
          expect(twiceOff <= size && twiceOff >= -size).toBe(true);
          if (twiceOff === size || twiceOff === -size) expect(quotient % 2n).toBe(0n);
        },
      ),
    );
  });
});

describe("splitting", () => {
  const weights = fc.array(fc.bigInt({ min: 0n, max: 10n ** 12n }), { minLength: 1, maxLength: 20 });

  test("parts sum to the total, lie within a unit of their share and never change its sign", () => {
    fc.assert(
      fc.property(minor, weights, (total, shares) => {
        const parts = split(total, shares);
        const sum = shares.reduce((all, share) => all + share, 0n);
        expect(parts.reduce((all, part) => all + part, 0n)).toBe(total);
        for (const [n, part] of parts.entries()) {
          expect(part === 0n || part > 0n === total > 0n).toBe(true);
          if (sum === 0n) continue;
          const off = part * sum - total * shares[n]!;
          expect(off < sum && off > -sum).toBe(true);
        }
      }),
    );
  });

  test("the largest remainder gets the unit that is left, of equal ones the first", () => {
    expect(split(100n, [1n, 1n, 1n])).toEqual([34n, 33n, 33n]);
    expect(split(-100n, [1n, 1n, 1n])).toEqual([-34n, -33n, -33n]);
    expect(split(10n, [1n, 5n])).toEqual([2n, 8n]);
    expect(split(5n, [0n, 0n])).toEqual([3n, 2n]);
    expect(split(0n, [])).toEqual([]);
    expect(() => split(1n, [])).toThrow(RangeError);
    expect(() => split(1n, [-1n, 2n])).toThrow(RangeError);
  });
});
