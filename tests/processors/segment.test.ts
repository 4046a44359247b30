// Whose word the segment of a sale is, which selects its contract (docs/design/money.md, rule 35).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { noon } from "../support/builders.ts";
import { decide, pixelSale, sale, settled } from "../support/money-builders.ts";

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

describe("a partner chooses no contract", () => {
  const H = 3_600_000;
  const ofPartner = { source: "upload", by_partner: true } as const;
  const later = (hours: number) => ({ receivedAt: noon + hours * H });
  /** Value, segment and reason of what the client owes for the order, one text a record. */
  const booked = (...claims: readonly Recorded<Claim>[]) =>
    settled(...claims).conversions.map(({ data }) =>
      [data.kind, data.product_id, data.value_minor, data.segment, data.reason].join(" "),
    );
  /** The segments of the lines that are owed at the end, by product. */
  const owed = (...claims: readonly Recorded<Claim>[]) => {
    const last = new Map(settled(...claims).conversions.map(({ data }) => [data.conversion_id, data]));
    const open = [...last.values()].filter(({ kind }) => kind !== "reversed");
    return open.map(({ product_id, segment }) => `${product_id} ${segment}`).toSorted();
  };

  test.each([
    ["names another segment", "MX", 100_00n, "changed_money"],
    ["names none", null, 100_00n, "changed_money"],
    ["has another amount too", "MX", 90_00n, "amended"],
    ["has no amount", "MX", null, "changed_money"],
  ] as const)("when the shop's server reports the sale after 49 h and %s", (_, product_line, value_minor, reason) => {
    const claims = [
      sale({ ...ofPartner, product_line: "VD", value_minor: 100_00n }),
      sale({ product_line, value_minor, ...later(49) }),
    ];
    expect(booked(...claims)).toEqual([
      `credited sku1 10000 VD `,
      `reversed sku1 10000 VD ${reason}`,
      `credited sku1 ${value_minor ?? 100_00n} ${product_line ?? ""} `,
    ]);
  });

  test("when its file comes after 49 h, or a page's report does", () => {
    const shops = sale({ product_line: null });
    expect(owed(shops, sale({ ...ofPartner, product_line: "VD", ...later(49) }))).toEqual(["sku1 null"]);
    expect(owed(shops, pixelSale({ product_line: "VD", ...later(49) }))).toEqual(["sku1 null"]);
  });

  test("when the shop's total of several lines comes after 49 h", () => {
    const part = (product_id: string) => sale({ ...ofPartner, product_id, product_line: "VD", value_minor: 50_00n });
    const total = { t: "ext_purchase", product_id: null, value_minor: 100_00n, ...later(49) } as const;
    expect(owed(part("a"), part("b"), sale({ ...total, product_line: null }))).toEqual(["a null", "b null"]);
    expect(owed(part("a"), part("b"), sale({ ...total, product_line: "MX" }))).toEqual(["a MX", "b MX"]);
  });

  const total = { t: "ext_purchase", product_id: null } as const;
  test.each([
    ["MX", ["a MX", "b MX"]],
    [null, ["a null", "b null"]],
  ] as const)("by lines that come to a total of the shop with the segment %s", (product_line, expected) => {
    const parts = ["a", "b"].map((product_id) =>
      sale({ ...ofPartner, product_id, product_line: "VD", value_minor: 50_00n }),
    );
    const whole = sale({ ...total, product_line, value_minor: 100_00n });
    expect(owed(whole, ...parts)).toEqual(expected);
    expect(owed(...parts, whole)).toEqual(expected);
  });

  test.each([
    ["MX", "null MX"],
    [null, "null null"],
  ] as const)("by a total that a person kept against the shop's line of %s", (product_line, expected) => {
    const whole = sale({ ...total, ...ofPartner, product_line: "VD", value_minor: 160_00n });
    const line = sale({ product_id: "a", product_line, value_minor: 100_00n });
    const kept = decide("release", { keep: "total" });
    expect(owed(whole, line, kept)).toEqual([expected]);
    expect(owed(line, whole, kept)).toEqual([expected]);
    expect(owed(whole, sale({ ...ofPartner, product_id: "a", value_minor: 100_00n }), kept, line)).toEqual([expected]);
  });

  test("but a line keeps its own segment where the total names another", () => {
    const lines = ["a", "b"].map((product_id) => pixelSale({ product_id, product_line: "MX", value_minor: 50_00n }));
    expect(owed(...lines, sale({ ...total, product_line: "VD", value_minor: 100_00n }))).toEqual(["a MX", "b MX"]);
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
