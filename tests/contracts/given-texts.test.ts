// Rows that a statement gets as arrays of texts equal the same rows as JSON, and both forms are
// refused for the same values.
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { columnArrays } from "../../infra/postgres/arrays.ts";
import { bigint, bool, givenRows, givenTexts, int, nullable, text, uuid } from "../../infra/postgres/columns.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { sharedStack } from "../support/shared-stack.ts";

const pool = openPool(sharedStack().env.POSTGRES_URL!);
afterAll(() => pool.end());

const columns = { n: nullable(int), digits: nullable(bigint), words: nullable(text), id: nullable(uuid), yes: bool };
type Row = Readonly<Record<keyof typeof columns, unknown>>;
type Found = { readonly rows: readonly object[] } | "refused";

const asked = async (from: string, values: unknown[]): Promise<Found> => {
  try {
    const { rows } = await pool.query<object>(`select n, digits, words, id, yes from ${from}`, values);
    return { rows };
  } catch (error) {
    expect(classify(error)).toBe("data");
    return "refused";
  }
};
const bothWays = (rows: readonly Row[]): Promise<readonly [Found, Found]> =>
  Promise.all([
    asked(givenRows(columns), [JSON.stringify(rows)]),
    // An error that is thrown before the query counts too.
    (async () => asked(givenTexts(columns), [...columnArrays(rows, Object.keys(columns))]))().catch((error) => {
      expect(classify(error)).toBe("data");
      return "refused" as const;
    }),
  ]);

const some = <T>(values: fc.Arbitrary<T>) => fc.option(values, { freq: 4 });
const words = fc.string({ unit: fc.constantFrom(..."a\"\\{},ñ€😀\n\t'", "NULL", "\u0001"), maxLength: 80 });
const good = fc.record({
  n: some(fc.integer()),
  digits: some(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
  words: some(words),
  id: some(fc.uuid()),
  yes: fc.boolean(),
});

test("whatever the rows, they are the same", async () => {
  const expected = (rows: readonly Row[]) =>
    rows.map((row) => ({ ...row, digits: row.digits === null ? null : BigInt(row.digits as string) }));
  await fc.assert(
    fc.asyncProperty(fc.array(good, { maxLength: 12 }), async (rows) => {
      const [json, texts] = await bothWays(rows);
      expect(texts).toEqual(json);
      expect(texts).toEqual({ rows: expected(rows) });
    }),
    { numRuns: 60 },
  );
});

test("a field that is not there is null", async () => {
  const [json, texts] = await bothWays([{ yes: true } as unknown as Row]);
  expect(texts).toEqual(json);
  expect(texts).toEqual({ rows: [{ n: null, digits: null, words: null, id: null, yes: true }] });
});

test.each([
  ["a number beyond its type", { n: 2 ** 31 }],
  ["a fraction", { n: 1.5 }],
  ["digits beyond 64 bits", { digits: "9223372036854775808" }],
  ["digits that are none", { digits: "12 MXN" }],
  ["an id that is none", { id: "not a uuid" }],
  ["a zero character", { words: "a\0b" }],
  ["half a character", { words: "a\ud83d" }],
  ["half a character in a long text", { words: `${"a".repeat(200)}\ude00` }],
])("%s is refused either way", async (_, field) => {
  const row = { n: 1, digits: "1", words: "a", id: null, yes: false, ...field };
  expect(await bothWays([row])).toEqual(["refused", "refused"]);
});
