// The fields that an audit row hides, the cells that a CSV escapes, and the rules of a merge-patch.
import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { expect, test } from "vitest";
import { csvLine } from "../../infra/http/csv.ts";
import { redacted } from "../../modules/base/audit/audit.ts";
import { mergePatch } from "../../modules/base/merge-patch.ts";

test("secrets and what says who a person is are redacted, however deep; what is absent stays so", () => {
  const row = {
    slug: "shop",
    hmac_secret: "0f0f",
    tokens: ["trb_x"],
    rows: [{ email: "a@b.example", phone: null, amount: 3 }],
    payout: { currency: "MXN" },
  };
  expect(redacted(row)).toEqual({
    slug: "shop",
    hmac_secret: "redacted",
    tokens: "redacted",
    rows: [{ email: "redacted", phone: null, amount: 3 }],
    payout: { currency: "MXN" },
  });
});
test("a name is personal where it is a person's", () => {
  expect(redacted({ name: "Ana" }, "user:1")).toEqual({ name: "redacted" });
  expect(redacted({ name: "Shop" }, "client:1")).toEqual({ name: "Shop" });
});

test("every text comes back as it was, a quote before what a spreadsheet would run", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" }), { minLength: 2, maxLength: 5 }), (cells) => {
      const text = csvLine(
        cells,
        cells.map(() => "text"),
      );
      const [back] = parse(text, { record_delimiter: "\r\n" }) as string[][];
      expect(back).toEqual(cells.map((cell) => (/^[=+\-@\t\r\0]/.test(cell) ? `'${cell}` : cell)));
    }),
  );
});
test("numbers stay bare, and what is not there is empty", () =>
  expect(csvLine(["-5.00", -3, null, undefined, "-5.00"], ["number", "number", "text", "text", "text"])).toBe(
    "-5.00,-3,,,'-5.00\r\n",
  ));

test("a merge-patch keeps what it does not name, and takes away what is null below the top", () => {
  const value = { a: 1, b: { c: 2, d: { e: 3 } }, list: [1] };
  expect(mergePatch(value, { b: { c: null, d: { f: 4 } }, list: [2] })).toEqual({
    a: 1,
    b: { d: { e: 3, f: 4 } },
    list: [2],
  });
  expect(mergePatch({ url: "x" }, { url: null })).toEqual({ url: null });
});
