// Laws for every contract and every history of sales and refunds: the money laws M1, M3, M7, M10,
// M11 and M12.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { digitsOf } from "../../domain/money.ts";
import type { Contract, Tier } from "../../domain/reference/reference.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";
import { contract, dayMs, noon } from "../support/builders.ts";
import {
  capPeriodOf,
  computedAgain,
  type Happening,
  history,
  sumOf,
  takenBack,
  volumeEarns,
} from "../support/contract-builders.ts";
import { committed, pixelSale, refund, sale, settled, terms } from "../support/money-builders.ts";

const maxMinor = 2n ** 63n - 1n;
const amounts = fc.bigInt({ min: 0n, max: 500_00n });
const rates = fc.bigInt({ min: 0n, max: 1_000_000n });
const inPesos = { currency: "MXN" } as const;

const ascending = fc
  .tuple(
    fc.uniqueArray(fc.bigInt({ min: 1n, max: 1_000_00n }), { maxLength: 3 }),
    fc.array(rates, { minLength: 4, maxLength: 4 }),
  )
  .map(([from, prices]) =>
    [0n, ...from.toSorted((a, b) => (a < b ? -1 : 1))].map((one, n) => ({ from: one, price: prices[n]! })),
  );
const tiers = fc
  .tuple(ascending, fc.boolean())
  .map(([steps, isByRate]): readonly Tier[] =>
    steps.map(({ from, price }) =>
      isByRate
        ? { from, rate_ppm: price, amount_minor: null }
        : { from: from % 7n, rate_ppm: null, amount_minor: price / 100n },
    ),
  );
const isSound = (all: readonly Tier[]): boolean => all.every(({ from }, n) => n === 0 || from > all[n - 1]!.from);
const modes = fc.constantFrom("marginal", "retroactive");
const caps = (periods: readonly ("day" | "month" | "lifetime")[]) =>
  fc.option(fc.record({ period: fc.constantFrom(...periods), amount_minor: fc.bigInt({ min: 1n, max: 300_00n }) }));

const tiered = fc
  .record({ tiers: tiers.filter(isSound), tier_mode: modes, cap: caps(["month", "lifetime"]) })
  .map((over) => contract({ type: "tiered", rate_ppm: null, ...inPesos, ...over }));
const limits = fc
  .tuple(fc.option(amounts), fc.option(amounts))
  .map(([a, b]) =>
    a === null || b === null || a <= b ? { min_minor: a, max_minor: b } : { min_minor: b, max_minor: a },
  );
const oneByOne = fc
  .record({
    type: fc.constantFrom("percent", "flat", "hybrid", "recurring"),
    rate_ppm: rates,
    amount_minor: amounts,
    isByRate: fc.boolean(),
    months: fc.option(fc.integer({ min: 1, max: 3 })),
    limits,
    cap: caps(["day", "month", "lifetime"]),
  })
  .map(({ type, rate_ppm, amount_minor, isByRate, months, limits, cap }) => {
    const hasRate = type === "percent" || type === "hybrid" || (type === "recurring" && isByRate);
    const hasAmount = type === "flat" || type === "hybrid" || (type === "recurring" && !isByRate);
    const bounds = type === "flat" ? {} : limits;
    return contract({
      type,
      ...inPesos,
      rate_ppm: hasRate ? rate_ppm : null,
      amount_minor: hasAmount ? amount_minor : null,
      months,
      cap,
      ...bounds,
    });
  });
const contracts = fc.oneof(oneByOne, tiered);

/** Around the end of May and the end of June in Mexico City, in any order of arrival. */
const times = fc.integer({ min: -30, max: 30 }).map((days) => noon + days * dayMs);
const sales: fc.Arbitrary<Happening> = fc
  .record({
    sale: fc.oneof({ weight: 8, arbitrary: amounts }, { weight: 1, arbitrary: fc.constantFrom(0n, 1n) }),
    occurred_at: times,
    customer: fc.constantFrom("d1", "d2"),
    review: fc.constantFrom(null, null, null, "fraud_review"),
  })
  .map(({ sale: value, ...over }) => ({ sale: value, over }));
const refunds: fc.Arbitrary<Happening> = fc.record({
  refundOf: fc.nat(7),
  minor: fc.bigInt({ min: 0n, max: 600_00n }),
});
const releases: fc.Arbitrary<Happening> = fc.record({ releaseOf: fc.nat(7) });
const histories = fc.array(
  fc.oneof({ weight: 6, arbitrary: sales }, { weight: 4, arbitrary: refunds }, { weight: 1, arbitrary: releases }),
  { minLength: 1, maxLength: 14 },
);

const entriesOf = (happenings: readonly Happening[], one: Contract): readonly LedgerEntry[] =>
  committed(history(happenings), () => terms({ contract: one }));
const holds = (
  law: (happenings: readonly Happening[], one: Contract, entries: readonly LedgerEntry[]) => void,
  of = contracts,
): void =>
  fc.assert(
    fc.property(histories, of, (happenings, one) => law(happenings, one, entriesOf(happenings, one))),
    { numRuns: 300 },
  );
const grouped = (
  entries: readonly LedgerEntry[],
  keyOf: (entry: LedgerEntry) => string,
): ReadonlyMap<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const one of entries) sums.set(keyOf(one), (sums.get(keyOf(one)) ?? 0n) + one.amount_minor);
  return sums;
};

describe("for every contract and every history", () => {
  test("each entry balances, and its lines are what the partner gains (M1)", () => {
    holds((_, __, entries) => {
      for (const { amount_minor, lines, held } of entries) {
        expect(lines.reduce((sum, line) => sum + line.amount_minor, 0n)).toBe(0n);
        const partners = lines.filter(({ account }) => account !== "expense:client");
        expect(-partners.reduce((sum, line) => sum + line.amount_minor, 0n)).toBe(amount_minor);
        expect(lines.every((line) => line.amount_minor !== 0n)).toBe(true);
        if (amount_minor !== 0n) expect(lines.some(({ account }) => account === "held:partner")).toBe(held);
      }
    });
  });

  test("never is more paid in a period than its cap, whatever the order (M3)", () => {
    holds((_, { cap }, entries) => {
      if (cap === null) return;
      const paid = new Map<string, bigint>();
      // A change and its adjustments are booked together.
      for (const [n, one] of entries.entries()) {
        const period = capPeriodOf(cap.period, one.occurred_at);
        paid.set(period, (paid.get(period) ?? 0n) + one.amount_minor);
        const isLast = entries[n + 1]?.change_id !== one.change_id;
        if (isLast) expect(paid.get(period)! <= cap.amount_minor).toBe(true);
      }
    });
  });

  test(
    "a partner is never below nothing, by sale or by month, and what is taken back names what was " + "earned (M3)",
    () => {
      holds((_, __, entries) => {
        const earnedIds = new Set(entries.map(({ entry_id }) => entry_id));
        const net = new Map<string, bigint>();
        const byMonth = new Map<string, bigint>();
        for (const [n, one] of entries.entries()) {
          if (one.kind === "reversal" || one.reason === "first_sale_moved")
            expect(earnedIds.has(one.reverses_entry_id!)).toBe(true);
          else if (one.amount_minor < 0n) expect(one.kind).toBe("tier_adjustment");
          if (one.kind !== "tier_adjustment") {
            net.set(one.conversion_id, (net.get(one.conversion_id) ?? 0n) + one.amount_minor);
            expect(net.get(one.conversion_id)! >= 0n).toBe(true);
          }
          const month = `${one.year}-${one.month}`;
          byMonth.set(month, (byMonth.get(month) ?? 0n) + one.amount_minor);
          if (entries[n + 1]?.kind !== "tier_adjustment") expect(byMonth.get(month)! >= 0n).toBe(true);
        }
      });
    },
  );

  test("a history that is wholly refunded sums to nothing: in all, by sale, by month of tiers and by account", () => {
    holds((happenings, one) => {
      const entries = entriesOf(takenBack(happenings), one);
      expect(sumOf(entries)).toBe(0n);
      for (const sum of grouped(entries, ({ conversion_id }) => conversion_id).values()) expect(sum).toBe(0n);
      const accounts = new Map<string, bigint>();
      for (const { account, amount_minor } of entries.flatMap(({ lines }) => lines))
        accounts.set(account, (accounts.get(account) ?? 0n) + amount_minor);
      for (const sum of accounts.values()) expect(sum).toBe(0n);
    });
  });

  test(
    "refunds return the room of a cap: after everything was refunded the next sale earns as the " +
      "first one would (M3)",
    () => {
      holds((happenings, one) => {
        const next = { sale: 123_45n, over: { customer: "somebody else" } };
        const after = entriesOf([...takenBack(happenings), next], one);
        const alone = entriesOf([next], one);
        expect(after.at(-1)?.kind === "tier_adjustment" ? after.at(-2)?.amount_minor : after.at(-1)?.amount_minor).toBe(
          alone[0]?.amount_minor,
        );
      });
    },
  );

  test("when every review was released nothing is held, in any order of sales, refunds and releases", () => {
    holds((happenings, one) => {
      const released = entriesOf([...happenings, ...happenings.map((_, n) => ({ releaseOf: n }))], one);
      const held = released.flatMap(({ lines }) => lines.filter(({ account }) => account === "held:partner"));
      expect(held.reduce((sum, { amount_minor }) => sum + amount_minor, 0n)).toBe(0n);
    });
  });

  test(
    "every change has one entry, with a reason when it earns nothing, and at most one adjustment " + "beside it (M10)",
    () => {
      holds((happenings, one, entries) => {
        const moved = entries.filter(({ reason }) => reason === "first_sale_moved");
        if (one.months === null) expect(moved).toEqual([]);
        const own = entries.filter((entry) => entry.kind !== "tier_adjustment" && !moved.includes(entry));
        expect(own.map(({ change_id }) => change_id)).toEqual(history(happenings).map(({ data }) => data.change_id));
        for (const { kind, reason } of own) if (kind === "none") expect(reason).not.toBeNull();
        const beside = entries.filter(({ kind }) => kind === "tier_adjustment");
        expect(new Set(beside.map(({ change_id }) => change_id)).size).toBe(beside.length);
        expect(new Set(entries.map(({ entry_id }) => entry_id)).size).toBe(entries.length);
        if (one.type !== "tiered") expect(beside).toEqual([]);
      });
    },
  );

  test("every amount can be computed again from its receipt alone", () => {
    holds((_, __, entries) => {
      for (const one of entries)
        if (one.kind !== "none") {
          expect(computedAgain(one)).toBe(one.amount_minor);
          if (one.kind !== "adjustment") expect(JSON.parse(one.inputs).amount_minor).toBe(one.amount_minor.toString());
        }
    });
  });

  test("the largest values that a log can hold stop nothing, and no entry is larger than a ledger can hold", () => {
    const largest = fc.array(
      fc.oneof(
        fc.constantFrom(maxMinor, maxMinor - 1n, 1n).map((value): Happening => ({ sale: value })),
        fc.record({ refundOf: fc.nat(5), minor: fc.constant(maxMinor) }),
      ),
      { maxLength: 10 },
    );
    fc.assert(
      fc.property(largest, contracts, (happenings, one) => {
        const entries = entriesOf(happenings, {
          ...one,
          cap: null,
          max_minor: null,
          amount_minor: one.amount_minor === null ? null : maxMinor,
        });
        for (const { amount_minor } of entries)
          expect(amount_minor <= maxMinor && amount_minor >= -maxMinor).toBe(true);
        expect(sumOf(entriesOf(takenBack(happenings), one))).toBe(0n);
      }),
      { numRuns: 300 },
    );
  });
});

describe("tiers without a cap", () => {
  const uncapped = tiered.map((one) => ({ ...one, cap: null }));
  const volumeOf = (happenings: readonly Happening[], { tiers: all }: Contract): ReadonlyMap<string, bigint> => {
    const units = new Map<string, bigint>();
    for (const { data } of history(happenings)) {
      const month = new Date(data.occurred_at - 6 * 3_600_000).toISOString().slice(0, 7);
      const part = data.kind === "credited" ? data.line_value_minor : -data.value_minor; // a release has none
      if (all[0]!.rate_ppm !== null) units.set(month, (units.get(month) ?? 0n) + part);
    }
    return units;
  };

  test("pay after every history what the volume of each month earns, marginal or retroactive", () => {
    holds((happenings, one, entries) => {
      if (one.tiers[0]!.rate_ppm === null) return;
      const paid = grouped(entries, ({ year, month }) => `${year}-${String(month).padStart(2, "0")}`);
      for (const [month, units] of volumeOf(happenings, one))
        expect(paid.get(month) ?? 0n).toBe(volumeEarns(units, one));
    }, uncapped);
  });

  test("pay the same however a volume is cut into sales, and in whatever order (M11)", () => {
    const cuts = fc.array(fc.bigInt({ min: 1n, max: 300_00n }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(cuts, uncapped, (parts, one) => {
        if (one.tiers[0]!.rate_ppm === null) return;
        const volume = parts.reduce((sum, part) => sum + part, 0n);
        const paid = sumOf(
          entriesOf(
            parts.map((part) => ({ sale: part })),
            one,
          ),
        );
        expect(paid).toBe(sumOf(entriesOf([{ sale: volume }], one)));
        expect(paid).toBe(
          sumOf(
            entriesOf(
              parts.toReversed().map((part) => ({ sale: part })),
              one,
            ),
          ),
        );
        expect(paid).toBe(volumeEarns(volume, one));
      }),
      { numRuns: 300 },
    );
  });

  test("that count sales pay for as many as there are, a partly refunded one in part", () => {
    const counted = uncapped.filter(({ tiers: all }) => all[0]!.rate_ppm === null);
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 100 }),
        counted,
        (count, refunded, one) => {
          const happenings: readonly Happening[] = [
            ...Array(count).fill({ sale: 100n }),
            { refundOf: 0, minor: BigInt(refunded) },
          ];
          expect(sumOf(entriesOf(happenings, one))).toBe(
            volumeEarns(BigInt(count) * 1_000_000n - BigInt(refunded) * 10_000n, one),
          );
        },
      ),
    );
  });

  test("of a month begin and end with it in Mexico City, to the millisecond (M12)", () => {
    const borders = [
      [Date.UTC(2026, 6, 1, 6), 2026, 7],
      [Date.UTC(2026, 0, 1, 6), 2026, 1],
      // The last summer with daylight saving time.
      [Date.UTC(2022, 6, 1, 5), 2022, 7],
    ] as const;
    const one = contract({
      type: "tiered",
      rate_ppm: null,
      ...inPesos,
      tiers: [
        { from: 0n, rate_ppm: 10_000n, amount_minor: null },
        { from: 100_00n, rate_ppm: 100_000n, amount_minor: null },
      ],
    });
    for (const [border, year, month] of borders) {
      const at = (occurred_at: number) => ({ sale: 100_00n, over: { occurred_at } });
      const entries = entriesOf([at(border - 1), at(border), at(border + 1)], one);
      expect(entries.map(({ amount_minor }) => amount_minor)).toEqual([1_00n, 1_00n, 10_00n]);
      expect(entries.slice(1)).toMatchObject([
        { year, month },
        { year, month },
      ]);
      expect([entries[0]!.year, entries[0]!.month]).not.toEqual([year, month]);
    }
  });
});

test("an amount is within half a minor unit of its exact share, in currencies of 0, 2 and 3 decimals (M11)", () => {
  const currencies = fc.constantFrom("JPY", "MXN", "KWD");
  fc.assert(
    fc.property(
      currencies,
      fc.bigInt({ min: 1n, max: 10n ** 15n }),
      fc.bigInt({ min: 1n, max: 1_000_000n }),
      (currency, value, rate_ppm) => {
        const happenings = [{ sale: value, over: { currency } }];
        const [entered] = entriesOf(happenings, contract({ rate_ppm }));
        const error = entered!.amount_minor * 1_000_000n - value * rate_ppm;
        expect(error <= 500_000n && error >= -500_000n).toBe(true);
        const [both] = entriesOf(happenings, contract({ type: "hybrid", rate_ppm, currency, amount_minor: 7n }));
        expect(both!.amount_minor).toBe(entered!.amount_minor + 7n);
        expect(both!.formula).toContain({ 0: "7 ", 2: "0.07 ", 3: "0.007 " }[digitsOf(currency) ?? 9]!);
      },
    ),
  );
});

test("of one line at most one partner has earned anything, whatever is said about its order (M7)", () => {
  const partners = fc.constantFrom(21, 22, null);
  const claims = fc.oneof(
    fc.record({ isPixel: fc.boolean(), partner: partners, value_minor: amounts }).map(
      ({ isPixel, ...said }) =>
        () =>
          isPixel ? pixelSale(said) : sale(said),
    ),
    fc.record({ value_minor: fc.option(amounts) }).map((said) => () => refund(said)),
  );
  fc.assert(
    fc.property(fc.array(claims, { maxLength: 10 }), contracts, (made, one) => {
      const entries = committed(settled(...made.map((make) => make())).conversions, () => terms({ contract: one }));
      const earning = [...grouped(entries, ({ partner_id }) => String(partner_id)).values()].filter(
        (sum) => sum !== 0n,
      );
      expect(earning.length <= 1).toBe(true);
    }),
    { numRuns: 300 },
  );
});
