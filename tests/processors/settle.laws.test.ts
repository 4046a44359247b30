// Laws for every sequence of claims: the money laws M1, M3, M7, M10 and M11, and R3, R8 and R9.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Claim, Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { contract, hourMs, noon } from "../support/builders.ts";
import {
  committed,
  netByPartner,
  pixelSale,
  refund,
  type Settlement,
  sale,
  settled,
  terms,
} from "../support/money-builders.ts";

const maxMinor = 2n ** 63n - 1n;
const amounts = fc.oneof(
  fc.constantFrom(0n, 1n, 100n, maxMinor - 1n, maxMinor),
  fc.bigInt({ min: 0n, max: 1_000_00n }),
  fc.bigInt({ min: 0n, max: maxMinor }),
);
const products = fc.constantFrom("a", "b", null);
const currencies = fc.constantFrom("MXN", "MXN", "MXN", "USD");
const partners = fc.constantFrom(21, 22, 23, null);
const receipts = fc.integer({ min: 0, max: 96 }).map((hours) => noon + hours * hourMs);

const sales = fc
  .record({
    isPixel: fc.boolean(),
    partner: partners,
    product_id: products,
    value_minor: fc.option(amounts),
    currency: currencies,
    product_line: fc.constantFrom("MX", "VD", null),
    band: fc.constantFrom("ok", "review"),
    receivedAt: receipts,
  })
  .map(
    ({ isPixel, ...said }) =>
      () =>
        isPixel ? pixelSale(said) : sale(said),
  );
const refunds = fc
  .record({ product_id: products, value_minor: fc.option(amounts), currency: currencies, receivedAt: receipts })
  .map((said) => () => refund(said));

/** All kinds of claims about one order, some of them twice. */
const histories = fc
  .tuple(
    fc.array(fc.oneof({ weight: 3, arbitrary: sales }, { weight: 2, arbitrary: refunds }), {
      minLength: 1,
      maxLength: 12,
    }),
    fc.array(fc.nat(11), { maxLength: 3 }),
  )
  .map(([made, again]): readonly Recorded<Claim>[] => {
    const claims = made.map((make) => make());
    return [...claims, ...again.flatMap((n) => claims[n] ?? [])];
  });

const rates = fc.bigInt({ min: 1n, max: 1_000_000n });
const entriesOf = ({ conversions }: Settlement, rate_ppm: bigint): readonly LedgerEntry[] =>
  committed(conversions, () => terms({ contract: contract({ rate_ppm }) }));
const holds = (
  law: (
    claims: readonly Recorded<Claim>[],
    settlement: Settlement,
    entries: readonly LedgerEntry[],
    rate_ppm: bigint,
  ) => void,
): void =>
  fc.assert(
    fc.property(histories, rates, (claims, rate_ppm) => {
      const settlement = settled(...claims);
      law(claims, settlement, entriesOf(settlement, rate_ppm), rate_ppm);
    }),
    { numRuns: 300 },
  );

const sumBy = <Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  amountOf: (row: Row) => bigint,
): ReadonlyMap<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const row of rows) sums.set(keyOf(row), (sums.get(keyOf(row)) ?? 0n) + amountOf(row));
  return sums;
};
const distinct = <T>(events: readonly Recorded<T>[]): readonly T[] => [
  ...new Map(events.map((event) => [event.id, event.data])).values(),
];
const isClosed = (changes: readonly Conversion[], id: string): boolean =>
  changes.some(
    (one) => one.conversion_id === id && one.kind === "reversed" && one.refunded_minor === one.line_value_minor,
  );

describe("for every sequence of claims about one order", () => {
  test("at no time are two partners credited for one line (M7)", () => {
    holds((_, { conversions }) => {
      const holders = new Map<string, string>();
      for (const { data } of new Map(conversions.map((event) => [event.id, event])).values()) {
        const line = data.event_id;
        if (data.kind === "credited") {
          expect(holders.get(line)).toBeUndefined();
          holders.set(line, data.conversion_id);
        } else {
          expect(holders.get(line)).toBe(data.conversion_id);
          if (data.refunded_minor === data.line_value_minor) holders.delete(line);
        }
      }
    });
  });

  test("a line never changes its partner", () => {
    holds((_, { conversions }) => {
      const partnersOf = sumBy(
        conversions,
        ({ data }) => `${data.event_id} ${data.partner_id}`,
        () => 0n,
      );
      expect(new Set([...partnersOf.keys()].map((key) => key.split(" ")[0])).size).toBe(partnersOf.size);
    });
  });

  test("a conversion counts its versions from 1, takes back what it says, and never more than it credited (M3)", () => {
    holds((_, { conversions }) => {
      const seen = new Map<string, Conversion>();
      for (const data of distinct(conversions)) {
        const before = seen.get(data.conversion_id);
        expect(data.kind).toBe(before === undefined ? "credited" : "reversed");
        expect(data.version).toBe((before?.version ?? 0) + 1);
        expect(data.refunded_minor).toBe(
          (before?.refunded_minor ?? 0n) + (data.kind === "reversed" ? data.value_minor : 0n),
        );
        expect(data.value_minor >= 0n && data.refunded_minor <= data.line_value_minor).toBe(true);
        expect(data.occurred_at).toBe(before?.occurred_at ?? data.occurred_at);
        seen.set(data.conversion_id, data);
      }
    });
  });

  test("every claim leaves the row of its event, copies merged, and versions without a gap (R3)", () => {
    holds((claims, { rows }) => {
      const versions = new Map<string, Set<number>>();
      for (const row of rows)
        versions.set(row.event.event_id, (versions.get(row.event.event_id) ?? new Set()).add(row.version));
      expect(new Set(versions.keys())).toEqual(new Set(claims.map((claim) => claim.id)));
      for (const seen of versions.values())
        expect([...seen].sort((a, b) => a - b)).toEqual([...seen].map((_, n) => n + 1));
      // A total stands for itself until lines come to its worth; its newest version says so.
      const byVersion = rows.toSorted((a, b) => a.version - b.version);
      const newest = new Map(byVersion.map((row) => [row.event.event_id, row]));
      const current = [...newest.values()].filter((row) => row.merged_into === null && row.event.t === "purchase");
      const products = new Set(
        claims
          .filter((claim) => claim.data.kind === "conversion")
          .map((claim) => claim.data.attributed.event.product_id),
      );
      // A copy without a product may belong to the order's only line.
      const fewest = products.has(null) && products.size > 1 ? products.size - 1 : products.size;
      expect(current.length).toBeGreaterThanOrEqual(fewest);
      expect(current.length).toBeLessThanOrEqual(products.size);
    });
  });

  test("the credit shown on an event is the credit that was settled (R11)", () => {
    holds((_, { conversions, rows }) => {
      const shown = new Map(
        rows.flatMap((row) =>
          row.event.t !== "refund" && row.credit.partner_id !== null
            ? [[row.event.event_id, row.credit.partner_id]]
            : [],
        ),
      );
      const credited = new Map(conversions.map(({ data }) => [data.event_id, data.partner_id]));
      expect(shown).toEqual(credited);
    });
  });

  test("every conversion record has one entry, and every entry balances in its currency (M10, M1)", () => {
    holds((_, { conversions }, entries) => {
      expect(new Set(entries.map((one) => one.change_id))).toEqual(new Set(conversions.map((event) => event.id)));
      for (const one of entries) {
        expect(one.lines.reduce((sum, line) => sum + line.amount_minor, 0n)).toBe(0n);
        expect(one.lines.length).toBe(one.amount_minor === 0n ? 0 : 2);
        expect(one.kind === "none" ? one.reason !== null : true).toBe(true);
        expect(
          one.amount_minor < 0n
            ? one.kind === "reversal" && one.reverses_entry_id !== null
            : one.kind !== "reversal" || one.amount_minor === 0n,
        ).toBe(true);
      }
    });
  });

  test("what was earned for a conversion that was wholly taken back is wholly taken back (M11)", () => {
    holds((_, { conversions }, entries) => {
      const changes = distinct(conversions);
      const once = [...new Map(entries.map((one) => [one.entry_id, one])).values()];
      for (const [id, sum] of sumBy(
        once,
        (one) => one.conversion_id,
        (one) => one.amount_minor,
      )) {
        expect(sum >= 0n).toBe(true);
        if (isClosed(changes, id) && changes.some((one) => one.conversion_id === id && one.kind === "reversed"))
          expect(sum).toBe(0n);
      }
    });
  });

  test("a partner can recompute every amount from its receipt", () => {
    holds((_, __, entries) => {
      for (const one of entries.filter(({ kind }) => kind === "earned")) {
        const inputs = JSON.parse(one.inputs);
        const thrice = 3n * BigInt(inputs.line_value_minor) * BigInt(inputs.rate_ppm);
        expect(inputs.amount_minor).toBe(one.amount_minor.toString());
        const error = 3n * one.amount_minor * 1_000_000n - thrice;
        expect(error <= 1_500_000n && error >= -1_500_000n).toBe(true);
      }
    });
  });

  test("every record can be written to the log and read back", () => {
    const room = Buffer.alloc(65_536);
    holds((_, { conversions, rows }, entries) => {
      const passes = <T>(
        topic: (typeof topics)[keyof typeof topics] & { readonly idOf: (data: T) => string },
        data: T,
      ) => {
        const event = {
          id: topic.idOf(data),
          key: "",
          at: noon,
          receivedAt: noon,
          position: { topic: "t", partition: 0, offset: 0 },
          data,
        };
        const end = topic.encode(event as never, null, room, 0);
        expect(topic.decode(room.subarray(0, end), event.position, null).data).toEqual(data);
      };
      for (const { data } of conversions) passes(topics.conversions as never, data);
      for (const row of rows) passes(topics.eventsAttributed as never, row);
      for (const one of entries) passes(topics.ledgerEntries as never, one);
    });
  });

  test("the same claims give the same records, whatever the time zone of the machine (R9)", () => {
    const timeZone = process.env.TZ;
    try {
      holds((claims, settlement, entries, rate_ppm) => {
        process.env.TZ = "Pacific/Kiritimati";
        const again = settled(...claims);
        expect(again).toEqual(settlement);
        expect(entriesOf(again, rate_ppm)).toEqual(entries);
        process.env.TZ = "UTC";
      });
    } finally {
      if (timeZone === undefined) delete process.env.TZ;
      else process.env.TZ = timeZone;
    }
  });

  test("claims of other orders in between change nothing (R8)", () => {
    holds((claims, settlement) => {
      const between = claims.flatMap((claim) => [
        claim,
        sale({ order_id: "elsewhere" }),
        refund({ order_id: "elsewhere", value_minor: 1n }),
      ]);
      const mine = settled(...between).conversions.filter(({ data }) => data.order_id === "o1");
      expect(mine).toEqual(settlement.conversions);
    });
  });
});

describe("the order of arrival does not show in the final money", () => {
  const linesOf = (values: readonly bigint[]) =>
    values.map((value_minor, n) => sale({ product_id: `p${n}`, value_minor }));
  const smallAmounts = fc.bigInt({ min: 0n, max: 1_000_00n });

  test("a refund before the sale, between its lines or after it takes back the same", () => {
    fc.assert(
      fc.property(
        fc.array(smallAmounts, { minLength: 1, maxLength: 5 }),
        fc.option(smallAmounts),
        fc.nat(5),
        (values, value_minor, place) => {
          const lines = linesOf(values);
          const back = refund({ value_minor });
          const between = [...lines.slice(0, place), back, ...lines.slice(place)];
          const net = (claims: readonly Recorded<Claim>[]) => netByPartner(settled(...claims).conversions);
          expect(net([back, ...lines])).toEqual(net([...lines, back]));
          expect(net(between)).toEqual(net([...lines, back]));
        },
      ),
    );
  });

  test("a refund of one line may come at any place", () => {
    fc.assert(
      fc.property(smallAmounts, fc.option(smallAmounts), (value, value_minor) => {
        const [line, other] = linesOf([value, 5_00n]);
        const back = refund({ product_id: "p0", value_minor });
        const final = (...claims: readonly Recorded<Claim>[]) =>
          committed(settled(...claims).conversions).reduce((sum, one) => sum + one.amount_minor, 0n);
        expect(final(back, line!, other!)).toBe(final(line!, other!, back));
        expect(final(line!, back, other!)).toBe(final(line!, other!, back));
      }),
    );
  });

  test("the credit, the refund and the server's money may come in any order", () => {
    fc.assert(
      fc.property(
        smallAmounts,
        smallAmounts,
        fc.option(smallAmounts),
        fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
        (seen, reported, back, places) => {
          const claims = [
            pixelSale({ value_minor: seen }),
            sale({ value_minor: reported, partner: null }),
            refund({ value_minor: back }),
          ];
          const net = (order: readonly number[]) =>
            netByPartner(settled(...order.map((n) => claims[n]!)).conversions)[21];
          const expected = reported - (back === null || back > reported ? reported : back);
          expect(net(places)).toBe(expected);
        },
      ),
    );
  });
});
