// Sales, copies, refunds and decisions in any order keep the laws M1, M7 and M10, R3 and R11.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Claim, Conversion, LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { hourMs, noon } from "../support/builders.ts";
import {
  committed,
  decide,
  flag,
  pixelSale,
  refund,
  reprocess,
  type Settlement,
  sale,
  settled,
} from "../support/money-builders.ts";

const products = fc.constantFrom("a", "b");
const partners = fc.constantFrom(21, 22, 23);
const receipts = fc.integer({ min: 0, max: 96 }).map((hours) => noon + hours * hourMs);
const amounts = fc.option(fc.bigInt({ min: 0n, max: 100_00n }));

const sales = fc
  .record({
    isPixel: fc.boolean(),
    partner: fc.option(partners),
    product_id: products,
    value_minor: amounts,
    band: fc.constantFrom("ok", "review"),
    receivedAt: receipts,
  })
  .map(
    ({ isPixel, ...said }) =>
      () =>
        isPixel ? pixelSale(said) : sale(said),
  );
const refunds = fc
  .record({ product_id: fc.option(products), value_minor: amounts, receivedAt: receipts })
  .map((said) => () => refund(said));
const lines = fc.option(products).map((line) => (line === null ? {} : { line }));
const decisions = fc
  .tuple(fc.constantFrom("assign", "reattribute", "take_back", "release", "reject"), partners, lines)
  .map(
    ([kind, partner, line]) =>
      () =>
        decide(kind, { ...line, partner_id: kind === "assign" || kind === "reattribute" ? partner : null }),
  );
const flags = fc.tuple(fc.constantFrom("click_flood", "flat_distribution"), fc.constantFrom(30, 40, 80), lines).map(
  ([code, weight, line]) =>
    () =>
      flag(code, weight, line),
);
/** A decision computed against a version that is outdated, or that never comes. */
const reprocessed = fc
  .tuple(
    fc.integer({ min: 1, max: 4 }),
    fc.record({
      partner: fc.option(partners),
      line: products,
      review: fc.constantFrom(null, "fraud_review"),
      overrides: fc.boolean(),
      recalculates: fc.boolean(),
    }),
  )
  .map(
    ([version, said]) =>
      () =>
        reprocess(version, said),
  );
const recredited = products.map((line) => () => decide("recredit", { line, actor: "job:reprocess" }));

/** All kinds of claims about one order, some of them twice. */
const histories = fc
  .tuple(
    fc.array(
      fc.oneof(
        { weight: 4, arbitrary: sales },
        { weight: 2, arbitrary: refunds },
        { weight: 4, arbitrary: decisions },
        { weight: 2, arbitrary: flags },
        { weight: 3, arbitrary: reprocessed },
        { weight: 1, arbitrary: recredited },
      ),
      { minLength: 1, maxLength: 14 },
    ),
    fc.array(fc.nat(13), { maxLength: 4 }),
  )
  .map(([made, again]): readonly Recorded<Claim>[] => {
    const claims = made.map((make) => make());
    return [...claims, ...again.flatMap((n) => claims[n] ?? [])];
  });

const holds = (
  law: (claims: readonly Recorded<Claim>[], settlement: Settlement, entries: readonly LedgerEntry[]) => void,
): void =>
  fc.assert(
    fc.property(histories, (claims) => {
      const settlement = settled(...claims);
      law(claims, settlement, committed(settlement.conversions));
    }),
    { numRuns: 1_000 },
  );
const distinct = (events: readonly Recorded<Conversion>[]): readonly Conversion[] => [
  ...new Map(events.map((event) => [event.id, event.data])).values(),
];
const isClosing = (one: Conversion): boolean => one.kind === "reversed" && one.refunded_minor === one.line_value_minor;
const once = (entries: readonly LedgerEntry[]): readonly LedgerEntry[] => [
  ...new Map(entries.map((one) => [one.entry_id, one])).values(),
];

describe("for every sequence of claims and decisions about one order", () => {
  test(
    "at no time are two partners credited for one line: the old credit is reversed, then the new one " + "added (M7)",
    () => {
      holds((_, { conversions }) => {
        const holders = new Map<string, string>();
        for (const data of distinct(conversions)) {
          const line = data.product_id ?? "";
          expect(holders.get(line)).toBe(data.kind === "credited" ? undefined : data.conversion_id);
          if (data.kind === "credited") holders.set(line, data.conversion_id);
          if (isClosing(data)) holders.delete(line);
        }
      });
    },
  );

  test(
    "a conversion counts its versions, takes back never more than it credited, and is released " +
      "without moving its value",
    () => {
      holds((_, { conversions }) => {
        const seen = new Map<string, Conversion>();
        for (const data of distinct(conversions)) {
          const before = seen.get(data.conversion_id);
          expect(data.version).toBe((before?.version ?? 0) + 1);
          expect(data.kind === "credited").toBe(before === undefined);
          expect(data.partner_id).toBe(before?.partner_id ?? data.partner_id);
          expect(data.refunded_minor).toBe(
            (before?.refunded_minor ?? 0n) + (data.kind === "reversed" ? data.value_minor : 0n),
          );
          expect(data.refunded_minor <= data.line_value_minor).toBe(true);
          if (data.kind === "released") expect([before?.review === null, data.review]).toEqual([false, null]);
          seen.set(data.conversion_id, data);
        }
      });
    },
  );

  test("an event's version is 1 and one more for each claim that changed it, without a gap (R3)", () => {
    holds((claims, { rows }) => {
      const versions = new Map<string, Set<number>>();
      const contents = new Map<string, string>();
      for (const row of rows) {
        const { event_id } = row.event;
        versions.set(event_id, (versions.get(event_id) ?? new Set()).add(row.version));
        const content = JSON.stringify(row, (_, value) => (typeof value === "bigint" ? value.toString() : value));
        const id = `${event_id} ${row.version}`;
        expect(contents.get(id) ?? content).toBe(content);
        contents.set(id, content);
      }
      const stored = claims.filter(({ data }) => data.kind !== "decision").map(({ id }) => id);
      expect(new Set(versions.keys())).toEqual(new Set(stored));
      for (const seen of versions.values())
        expect([...seen].sort((a, b) => a - b)).toEqual([...seen].map((_, n) => n + 1));
      const changes = new Set(claims.map(({ id }) => id)).size - versions.size;
      const further = [...versions.values()].reduce((sum, seen) => sum + seen.size - 1, 0);
      // A claim about the whole order changes each of its two lines at most once.
      expect(further).toBeLessThanOrEqual(2 * (changes + versions.size));
    });
  });

  test("the credit shown on an event is the credit that was settled (R11)", () => {
    holds((_, { conversions, rows }) => {
      const settledFor = new Map<string, number | null>();
      for (const data of distinct(conversions)) {
        if (data.kind === "credited") settledFor.set(data.event_id, data.partner_id);
      }
      const newest = new Map<string, (typeof rows)[number]>();
      for (const row of rows) {
        const before = newest.get(row.event.event_id);
        if (before === undefined || row.version > before.version) newest.set(row.event.event_id, row);
      }
      for (const row of newest.values()) {
        if (row.event.t === "refund" || row.merged_into !== null) continue;
        if (row.credit.status === "attributed") expect(settledFor.get(row.event.event_id)).toBe(row.credit.partner_id);
        else expect(row.credit.partner_id).toBeNull();
      }
      const holding = new Map<string, number>();
      for (const data of distinct(conversions)) {
        if (data.kind === "credited") holding.set(data.event_id, data.partner_id);
        if (isClosing(data)) holding.delete(data.event_id);
      }
      for (const [id, partner] of holding) expect(newest.get(id)?.credit.partner_id).toBe(partner);
    });
  });

  test(
    "every entry balances, every record has its entry, and no partner is left with less than nothing " + "(M1, M10)",
    () => {
      holds((_, { conversions }, entries) => {
        expect(new Set(entries.map((one) => one.change_id))).toEqual(new Set(conversions.map((event) => event.id)));
        const accounts = new Map<string, bigint>();
        for (const one of once(entries)) {
          expect(one.lines.reduce((sum, line) => sum + line.amount_minor, 0n)).toBe(0n);
          for (const { account, amount_minor } of one.lines) {
            const key = `${account} ${one.conversion_id}`;
            accounts.set(key, (accounts.get(key) ?? 0n) + amount_minor);
          }
        }
        for (const [key, sum] of accounts) if (!key.startsWith("expense:")) expect(sum <= 0n).toBe(true);
      });
    },
  );

  test("what is held is what is still under review", () => {
    holds((_, { conversions }, entries) => {
      const newest = new Map(distinct(conversions).map((data) => [data.conversion_id, data]));
      for (const [id, { review }] of newest) {
        const sumOf = (account: string) =>
          once(entries)
            .filter((one) => one.conversion_id === id)
            .flatMap((one) => one.lines.filter((line) => line.account === account))
            .reduce((sum, line) => sum + line.amount_minor, 0n);
        expect(sumOf(review === null ? "held:partner" : "payable:partner")).toBe(0n);
      }
    });
  });

  test("a decision that recalculates nothing moves no money, whatever came before it", () => {
    holds((claims, { conversions }, entries) => {
      const quiet = new Set(
        claims.flatMap(({ data: { decision } }) => (decision?.recalculates === false ? decision.decision_id : [])),
      );
      const caused = new Set(conversions.filter(({ data }) => quiet.has(data.cause_event_id)).map(({ id }) => id));
      for (const one of entries) if (caused.has(one.change_id)) expect(one.amount_minor).toBe(0n);
    });
  });

  test("the same claims heard again change nothing", () => {
    holds((claims, settlement) => {
      const again = settled(...claims, ...claims);
      expect(distinct(again.conversions)).toEqual(distinct(settlement.conversions));
    });
  });
});

test("a decision by which somebody is credited may come before the sale, between its lines or after them", () => {
  fc.assert(
    fc.property(
      fc.array(fc.option(partners), { minLength: 1, maxLength: 4 }),
      partners,
      fc.nat(4),
      (credited, partner, place) => {
        const claims = credited.map((one, n) => sale({ partner: one, product_id: `p${n}` }));
        const decision = decide("reattribute", { partner_id: partner });
        const told = settled(...claims.slice(0, place), decision, ...claims.slice(place));
        const net = committed(told.conversions).reduce<Record<number, bigint>>((sums, { partner_id, amount_minor }) => {
          sums[partner_id] = (sums[partner_id] ?? 0n) + amount_minor;
          return sums;
        }, {});
        expect(net[partner]).toBe(10_00n * BigInt(credited.length));
        for (const [id, sum] of Object.entries(net)) if (Number(id) !== partner) expect(sum).toBe(0n);
      },
    ),
  );
});
