// Whose word the segment of a sale is, which selects its contract (docs/design/money.md, rule 35).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { pixelSale, sale, settled } from "../support/money-builders.ts";

const reported = {
  "the shop's server": (product_line: string | null) => sale({ product_line }),
  "the page": (product_line: string | null) => pixelSale({ product_line }),
  "the partner's file": (product_line: string | null) => sale({ product_line, source: "upload", by_partner: true }),
  "the partner's network": (product_line: string | null) =>
    sale({ product_line, source: "postback_network", by_partner: true }),
};
type Report = readonly [keyof typeof reported, string | null];
const claimsOf = (reports: readonly Report[]) => reports.map(([by, segment]) => reported[by](segment));

/** The segment of the conversion that stands at the end. */
const segmentOf = (claims: readonly Recorded<Claim>[]): string | null =>
  settled(...claims).conversions.findLast(({ data }) => data.kind === "credited")!.data.segment;

describe("the segment of a sale is", () => {
  test.each<readonly [string, readonly Report[], string | null]>([
    [
      "that of the shop's server, though the partner came first",
      [
        ["the partner's file", "VD"],
        ["the shop's server", "MX"],
      ],
      "MX",
    ],
    [
      "that of the shop's server, though the page came first",
      [
        ["the page", "VD"],
        ["the shop's server", "MX"],
      ],
      "MX",
    ],
    [
      "that of the page, though the partner came first",
      [
        ["the partner's file", "VD"],
        ["the page", "MX"],
      ],
      "MX",
    ],
    [
      "that of the page where the shop's server names none",
      [
        ["the shop's server", null],
        ["the page", "MX"],
      ],
      "MX",
    ],
    [
      "that of the first of two servers",
      [
        ["the shop's server", "MX"],
        ["the shop's server", "VD"],
      ],
      "MX",
    ],
    [
      "the second server's where the first names none",
      [
        ["the shop's server", null],
        ["the shop's server", "MX"],
      ],
      "MX",
    ],
    ["the partner's where nothing else reports the sale", [["the partner's file", "VD"]], "VD"],
    [
      "the partner's where the page names none",
      [
        ["the page", null],
        ["the partner's network", "VD"],
      ],
      "VD",
    ],
    [
      "none of the partner's once the shop's server reports the sale",
      [
        ["the shop's server", null],
        ["the partner's file", "VD"],
      ],
      null,
    ],
    [
      "none of the partner's, though it came first",
      [
        ["the partner's network", "VD"],
        ["the shop's server", null],
      ],
      null,
    ],
  ])("%s", (_, reports, segment) => expect(segmentOf(claimsOf(reports))).toBe(segment));

  test("that of the page again, when a partner's and an empty word of the server came between", () =>
    expect(
      segmentOf(
        claimsOf([
          ["the partner's file", "VD"],
          ["the page", "MX"],
          ["the shop's server", null],
          ["the partner's file", "VD"],
        ]),
      ),
    ).toBe("MX"));

  test("the same in each order of arrival, where reports of one kind agree", () =>
    fc.assert(
      fc.property(
        fc.shuffledSubarray(
          [
            ["the shop's server", "MX"],
            ["the shop's server", null],
            ["the page", "VD"],
            ["the page", null],
            ["the partner's file", "DA"],
            ["the partner's file", null],
          ] as const,
          { minLength: 1 },
        ),
        (reports) => {
          const said = (by: Report[0], segment: string): string | null =>
            reports.some(([one, named]) => one === by && named === segment) ? segment : null;
          const isReportedByShop = reports.some(([by]) => by === "the shop's server");
          const partners = isReportedByShop ? null : said("the partner's file", "DA");
          expect(segmentOf(claimsOf(reports))).toBe(
            said("the shop's server", "MX") ?? said("the page", "VD") ?? partners,
          );
        },
      ),
    ));
});

describe("another segment", () => {
  test("of a credited sale goes back and is earned again, to the same partner", () => {
    const { conversions } = settled(
      ...claimsOf([
        ["the partner's file", "VD"],
        ["the shop's server", null],
      ]),
    );
    expect(conversions.map(({ data }) => [data.kind, data.segment, data.partner_id, data.reason])).toEqual([
      ["credited", "VD", 21, null],
      ["reversed", "VD", 21, "changed_money"],
      ["credited", null, 21, null],
    ]);
  });

  test("is that of each line when the shop's server reports their total", () => {
    const partners = (product_id: string) =>
      sale({ product_id, product_line: "VD", value_minor: 50_00n, source: "upload", by_partner: true });
    const total = sale({ t: "ext_purchase", product_id: null, product_line: null, value_minor: 100_00n });
    for (const claims of [
      [partners("a"), partners("b"), total],
      [total, partners("a"), partners("b")],
    ]) {
      const { conversions } = settled(...claims);
      const last = new Map(conversions.map(({ data }) => [data.conversion_id, data]));
      const open = [...last.values()].filter(({ kind }) => kind === "credited");
      expect(open.map(({ product_id, segment }) => [product_id, segment])).toEqual([
        ["a", null],
        ["b", null],
      ]);
    }
  });
});

test("who named it is remembered only where the first copy does not say it", () => {
  const words = (reports: readonly Report[]) => {
    let lines = emptyOrder;
    for (const claim of claimsOf(reports)) lines = settle(claim, decode(encode(lines)), null).state!;
    return lines.lines.map(({ segment_word }) => segment_word);
  };
  expect(
    words([
      ["the shop's server", "MX"],
      ["the page", "VD"],
      ["the partner's file", "VD"],
    ]),
  ).toEqual([null]);
  expect(
    words([
      ["the page", null],
      ["the shop's server", "MX"],
    ]),
  ).toEqual([{ by: "client", client_spoke: true }]);
});
