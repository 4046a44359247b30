// What a trial says is what its backfill books, beside caps, tiers and closed months; and a second
// run of the same rule changes nothing (docs/design/money.md, rule 26).
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Contract, ReferenceRows } from "../../domain/reference/reference.ts";
import type { Page } from "../../modules/money/trials/evaluate.ts";
import { openSummary } from "../../modules/money/trials/summary.ts";
import type { TriedRule } from "../../modules/money/trials/try-rule.ts";
import { clientId, contract, crediting, dayMs, hourMs, noon, partner, rule } from "../support/builders.ts";
import { reprocessed } from "../support/reprocessing.ts";
import { purchase, refund } from "../support/shop.ts";
import { triedOn } from "../support/tried.ts";

const [gains, loses, other] = [21, 22, 23];
const tried: TriedRule = {
  ...{ rule_id: 51, version: 1, client_id: clientId, priority: 0, mode: "alone" as const },
  ...{ when: { field: "coupon", op: "eq", value: "TEN" } as const, ...crediting(gains) },
};

const terms: fc.Arbitrary<Partial<Contract>> = fc
  .record({
    rate_ppm: fc.constantFrom(100_000n, 33_333n),
    per: fc.constantFrom("line" as const, "order" as const),
    cap: fc.constantFrom(
      null,
      { amount_minor: 15_00n, period: "month" as const },
      { amount_minor: 25_00n, period: "lifetime" as const },
    ),
    isTiered: fc.boolean(),
  })
  .map(({ isTiered, ...over }) => ({
    ...over,
    currency: "MXN",
    ...(isTiered && {
      type: "tiered" as const,
      rate_ppm: null,
      tiers: [
        { from: 0n, rate_ppm: 50_000n, amount_minor: null },
        { from: 150_00n, rate_ppm: 100_000n, amount_minor: null },
      ],
    }),
  }));

/** May is closed when the rule is tried, and June is not. */
const days = fc.constantFrom(-26, -20, -2, -1, 0);
const happenings = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("sale" as const),
        order: fc.constantFrom("o1", "o2", "o3", "o4", "o5"),
        product: fc.constantFrom("a", "b"),
        coupon: fc.constantFrom("TEN", "TEN", "OLD", "NONE"),
        amount: fc.constantFrom("100.00", "33.33", "250.00"),
        day: days,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("refund" as const),
        order: fc.constantFrom("o1", "o2", "o3"),
        amount: fc.constantFrom("10.00", "100.00"),
        day: days,
      }),
    },
  ),
  { minLength: 2, maxLength: 12 },
);

const sums = (pages: readonly Page[]): Readonly<Record<string, bigint>> => {
  const summary = openSummary();
  for (const page of pages) summary.add(page);
  const found = summary.result().deltas;
  return Object.fromEntries(
    found.map((one) => [`${one.partner_id} ${one.year}-${one.month} ${one.currency}`, one.amount_minor]),
  );
};
const difference = (before: Readonly<Record<string, bigint>>, after: Readonly<Record<string, bigint>>) =>
  Object.fromEntries(
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .map((key) => [key, (after[key] ?? 0n) - (before[key] ?? 0n)] as const)
      .filter(([, minor]) => minor !== 0n),
  );
const sentIn = (pages: readonly Page[]) => ({
  changes: pages.flatMap(({ matches }) =>
    matches.flatMap(({ change, fate }) => (change !== undefined && fate === "sent" ? change : [])),
  ),
});

const seen = { moved: 0, left: 0 };
test("simulate is the report is the difference of the ledger, and a second run changes nothing", async () => {
  await fc.assert(
    fc.asyncProperty(
      happenings,
      fc.tuple(terms, terms, terms),
      fc.boolean(),
      async (history, [a, b, c], isFreeFirst) => {
        const rows: Partial<ReferenceRows> = {
          partners: [gains, loses, other].map((partner_id) => partner({ partner_id })),
          contracts: [
            contract({ contract_id: 61, partner_id: gains, ...a }),
            contract({ contract_id: 62, partner_id: loses, ...b }),
            contract({ contract_id: 63, partner_id: other, ...c }),
          ],
          rules: [
            rule({ rule_id: 52, when: { field: "coupon", op: "eq", value: "OLD" }, ...crediting(loses) }),
            rule({ rule_id: 53, when: { field: "revenue", op: "gte", value: 200 }, ...crediting(other) }),
          ],
        };
        const shop = reprocessed(rows);
        const inOrder = history.map((one, n) => ({ ...one, n })).sort((x, y) => x.day - y.day || x.n - y.n);
        for (const { n, day, order: order_id, amount, ...one } of inOrder) {
          const at = noon + day * dayMs + n * hourMs;
          const event =
            one.kind === "refund"
              ? refund({ event_id: `back-${n}`, ts: at }, { order_id, amount })
              : purchase(
                  { event_id: `sale-${n}`, did: `device-${n}`, ts: at },
                  { order_id, product_id: one.product, revenue: amount, coupon: one.coupon },
                );
          await shop.post([event], { receivedAt: at });
        }
        const before = shop.earnings();
        if (isFreeFirst) {
          const free = await triedOn(shop, rows, { rule: tried, recalculates: false });
          await shop.write(sentIn(free));
          expect([sums(free), difference(before, shop.earnings())]).toEqual([{}, {}]);
          expect(sentIn(await triedOn(shop, rows, { rule: tried, recalculates: false })).changes).toEqual([]);
        }
        const simulated = await triedOn(shop, rows, { rule: tried });
        const pages = await triedOn(shop, rows, { rule: tried });
        expect(sums(pages)).toEqual(sums(simulated));
        await shop.write(sentIn(pages));
        const moved = difference(before, shop.earnings());
        expect(moved).toEqual(sums(pages));
        // Closed months stay as they were.
        expect(Object.keys(moved).filter((key) => key.includes("2026-5"))).toEqual([]);
        const again = await triedOn(shop, rows, { rule: tried });
        expect(sums(again)).toEqual({});
        expect(sentIn(again).changes.map(({ order_id, before, after }) => [order_id, before, after])).toEqual([]);
        seen.moved += Object.keys(moved).length;
        seen.left += pages.flatMap(({ closed }) => closed).length;
      },
    ),
    { numRuns: 200 },
  );
  expect(seen.moved).toBeGreaterThan(100);
  expect(seen.left).toBeGreaterThan(20);
});
