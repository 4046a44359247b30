// After reprocessing, the state is the same as if the rule had been right from the start, whatever
// happened under the wrong one.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ReferenceRows, Rule } from "../../domain/reference/reference.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { contract, crediting, dayMs, hourMs, noon, partner, rule } from "../support/builders.ts";
import { later, type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { clickBefore, pageView, purchase, refund, type Written } from "../support/shop.ts";

const partnerIds = [21, 22, 23];
const everybody: Partial<ReferenceRows> = {
  partners: partnerIds.map((partner_id) => partner({ partner_id })),
  contracts: partnerIds.map((partner_id, n) =>
    contract({ contract_id: 60 + n, partner_id, rate_ppm: BigInt(33_333 * (n + 1)) }),
  ),
};
interface Happened {
  readonly event: Written;
  readonly receivedAt: UnixMs;
}
const hours = fc.integer({ min: 0, max: 90 });
const coupons = fc.constantFrom("TEN", "FIVE", null);
let made = 0;

const sales = fc
  .record({
    order: fc.constantFrom("o1", "o2", "o3"),
    product: fc.constantFrom("a", "b"),
    isPixel: fc.boolean(),
    coupon: coupons,
    hasClick: fc.boolean(),
    revenue: fc.constantFrom("100.00", "33.33", "0.05", "0.00"),
    hour: hours,
  })
  .map(
    ({ order, product, isPixel, coupon, hasClick, revenue, hour }) =>
      (): Happened & { readonly isClientSide: boolean } => ({
        event: purchase(
          {
            event_id: `sale-${++made}`,
            did: `device-${made}`,
            ts: noon,
            ...(hasClick && { svc_click_id: clickBefore(hourMs) }),
          },
          { order_id: order, product_id: product, revenue, ...(coupon !== null && { coupon }) },
        ),
        receivedAt: noon + hour * hourMs,
        isClientSide: isPixel,
      }),
  );
const refunds = fc
  .record({
    order: fc.constantFrom("o1", "o2", "o3"),
    product: fc.constantFrom(undefined, "a", "b"),
    amount: fc.constantFrom(undefined, "10.00", "33.33"),
    hour: hours,
  })
  .map(({ order, product, amount, hour }) => () => ({
    event: refund(
      { event_id: `refund-${++made}`, ts: noon },
      { order_id: order, product_id: product, ...(amount !== undefined && { amount }) },
    ),
    receivedAt: noon + hour * hourMs,
    isClientSide: false,
  }));
const visits = fc.record({ path: fc.constantFrom("a", "b"), hour: hours }).map(({ path, hour }) => () => ({
  event: pageView({
    event_id: `visit-${++made}`,
    did: `device-${made}`,
    ts: noon,
    url: `https://shop.example/${path}`,
  }),
  receivedAt: noon + hour * hourMs,
  isClientSide: true,
}));
const histories = fc
  .array(
    fc.oneof({ weight: 5, arbitrary: sales }, { weight: 2, arbitrary: refunds }, { weight: 1, arbitrary: visits }),
    {
      minLength: 1,
      maxLength: 9,
    },
  )
  .map((makes) => makes.map((make) => make()).sort((a, b) => a.receivedAt - b.receivedAt));

const conditions: fc.Arbitrary<Rule["when"]> = fc.constantFrom(
  { field: "coupon", op: "eq", value: "TEN" },
  { field: "coupon", op: "in", value: ["TEN", "FIVE"] },
  { field: "url.path", op: "eq", value: "/a" },
  { field: "product_line", op: "eq", value: "MX" },
);
const rules = (rule_id: number) =>
  fc
    .record({
      when: conditions,
      partner_id: fc.constantFrom(...partnerIds),
      status: fc.constantFrom<Rule["status"]>("active", "active", "inactive"),
    })
    .map(({ when, partner_id, status }) => rule({ rule_id, when, status, ...crediting(partner_id) }));
const ruleSets = fc.tuple(rules(51), rules(52));

const toldTo = async (
  world: Reprocessed,
  history: Iterable<Happened & { readonly isClientSide: boolean }>,
): Promise<void> => {
  for (const { event, ...over } of history) await world.post([event], over);
};
const creditOf = ({ credit, merged_into }: EventAttributed) => ({
  status: credit.status,
  method: credit.method,
  reason: credit.reason,
  partner_id: credit.partner_id,
  campaign_id: credit.campaign_id,
  rule_id: credit.rule_id,
  merged_into,
});
const creditsIn = (world: Reprocessed) =>
  Object.fromEntries([...world.current()].map(([id, row]) => [id, creditOf(row)]));
/** The balance of each account of each partner, by month. */
const accountsIn = (world: Reprocessed): Readonly<Record<string, bigint>> => {
  const sums: Record<string, bigint> = {};
  for (const entry of new Map(world.entries().map((one) => [one.entry_id, one])).values())
    for (const { account, amount_minor } of entry.lines) {
      const key = `${account} ${entry.partner_id} ${entry.year}-${entry.month}`;
      sums[key] = (sums[key] ?? 0n) + amount_minor;
    }
  return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0n));
};

const end = noon + 8 * dayMs;
const now = later + 10 * dayMs;

test("credits and money are those of a world in which the rules had been right, by one window or by " +
  "two, and a further run finds nothing", async () => {
  await fc.assert(
    fc.asyncProperty(histories, histories, ruleSets, ruleSets, hours, async (...drawn) => {
      const [history, further, wrong, right, border] = drawn;
      const today = {
        ...everybody,
        rules: [...wrong, ...right.map((one) => ({ ...one, version: 2, recorded_at: noon + 7 * dayMs }))],
      };
      const [actual, ideal] = [
        reprocessed({ ...everybody, rules: wrong }),
        reprocessed({ ...everybody, rules: right }),
      ];
      await toldTo(actual, history);
      await toldTo(ideal, history);
      actual.learn(today);
      const middle = noon + border * hourMs;
      for (const [from, to] of [
        [noon, middle],
        [middle, end],
      ] as const) {
        const found = await actual.difference(today, { from, to, now });
        const before = actual.earnings();
        await actual.write(found);
        const after = actual.earnings();
        const moved = Object.fromEntries(
          found.money.map(({ partner_id, year, month, currency, commission_minor }) => [
            `${partner_id} ${year}-${month} ${currency}`,
            commission_minor,
          ]),
        );
        for (const key of new Set([...Object.keys(before), ...Object.keys(after), ...Object.keys(moved)]))
          expect((after[key] ?? 0n) - (before[key] ?? 0n), `what was said of ${key}`).toBe(moved[key] ?? 0n);
      }
      expect(creditsIn(actual)).toEqual(creditsIn(ideal));
      expect(accountsIn(actual)).toEqual(accountsIn(ideal));
      expect((await actual.difference(today, { from: noon, to: end, now })).changes).toEqual([]);
      // Later events are judged the same way.
      const afterwards = further.map((one) => ({ ...one, receivedAt: one.receivedAt + 9 * dayMs }));
      await toldTo(actual, afterwards);
      await toldTo(ideal, afterwards);
      expect(creditsIn(actual)).toEqual(creditsIn(ideal));
      expect(accountsIn(actual)).toEqual(accountsIn(ideal));
    }),
    { numRuns: 120 },
  );
}, 120_000);
