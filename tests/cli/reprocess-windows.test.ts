// A window that holds only a part of an order: its other lines stay unchanged, and both parts are
// judged together.
import { expect, test } from "vitest";
import type { ReferenceRows, Rule } from "../../domain/reference/reference.ts";
import { contract, crediting, dayMs, hourMs, noon, partner, rule } from "../support/builders.ts";
import { type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { purchase } from "../support/shop.ts";

const [one, other] = [21, 22];
const partnerOf = (rule_id: number, coupon: string, partner_id: number): Rule =>
  rule({ rule_id, when: { field: "coupon", op: "eq", value: coupon }, ...crediting(partner_id) });
const everybody: Partial<ReferenceRows> = {
  partners: [one, other].map((partner_id) => partner({ partner_id })),
  contracts: [one, other].map((partner_id) => contract({ contract_id: 40 + partner_id, partner_id })),
};
const mistaken = [partnerOf(51, "TEN", one), partnerOf(52, "FIVE", one), partnerOf(53, "SIX", other)];
/** The coupon TEN belongs to the other partner. */
const corrected = [...mistaken, { ...mistaken[0]!, version: 2, recorded_at: noon + 7 * dayMs, ...crediting(other) }];
const before: Partial<ReferenceRows> = { ...everybody, rules: mistaken };
const after: Partial<ReferenceRows> = { ...everybody, rules: corrected };

const sell = (world: Reprocessed, product_id: string, coupon: string, hour: number): Promise<void> =>
  world.post([purchase({ event_id: `${product_id}-${hour}`, did: `device-${product_id}` }, { product_id, coupon })], {
    receivedAt: noon + hour * hourMs,
  });
/** The owner of each product's lines, and why they are held. */
const lines = (world: Reprocessed): readonly string[] => {
  const newest = new Map(world.conversions().map((record) => [record.conversion_id, record]));
  return [...newest.values()]
    .filter(({ kind, refunded_minor }) => kind !== "reversed" || refunded_minor === 0n)
    .map(({ product_id, partner_id, review }) => `${product_id} ${partner_id}${review === null ? "" : ` ${review}`}`)
    .sort();
};
const window = (from: number, to: number) => ({
  ...{ from: noon + from * hourMs, to: noon + to * hourMs, now: noon + 10 * dayMs },
});

test("a line that is held for an earlier one outside of the window stays held", async () => {
  for (const hours of [20, 60]) {
    const world = reprocessed(before);
    await sell(world, "a", "FIVE", 0);
    await sell(world, "b", "SIX", hours);
    expect(lines(world)).toEqual(["a 21", "b 22 claimed_by_another_partner"]);
    expect((await world.difference(before, window(hours - 5, hours + 5))).changes).toEqual([]);
  }
});

test("a line behind the window is held once an earlier one is another partner's", async () => {
  for (const hours of [20, 60]) {
    const world = reprocessed(before);
    await sell(world, "a", "TEN", 0);
    await sell(world, "b", "FIVE", hours);
    expect(lines(world)).toEqual(["a 21", "b 21"]);
    world.learn(after);
    await world.write(await world.difference(after, window(-5, 5)));
    expect(lines(world)).toEqual(["a 22", "b 21 claimed_by_another_partner"]);
    expect((await world.difference(after, window(-5, 5))).changes).toEqual([]);
    expect((await world.difference(after, window(-5, 90))).changes).toEqual([]);
  }
});

test("a line of the window is held for an earlier one that stands as it is", async () => {
  const world = reprocessed(before);
  await sell(world, "a", "TEN", 0);
  await sell(world, "b", "SIX", 1);
  await sell(world, "c", "TEN", 20);
  world.learn(after);
  await world.write(await world.difference(after, window(15, 25)));
  expect(lines(world)).toEqual(["a 21", "b 22 claimed_by_another_partner", "c 22 claimed_by_another_partner"]);
});

test("a sale that comes after it is judged by whom the order is credited to today", async () => {
  for (const [coupon, expected] of [
    ["SIX", "b 22"],
    ["FIVE", "b 21 claimed_by_another_partner"],
  ] as const) {
    const world = reprocessed(before);
    await sell(world, "a", "TEN", 0);
    world.learn(after);
    await world.write(await world.difference(after, window(-5, 5)));
    await sell(world, "b", coupon, 8 * 24);
    expect(lines(world)).toEqual(["a 22", expected]);
  }
});
