// A sale that is credited again, because its refunds, its money or its hold changed, keeps the
// contract that was known when it was first credited.
import { describe, expect, test } from "vitest";
import type { ReferenceRows } from "../../domain/reference/reference.ts";
import { contract, hourMs, noon, partner } from "../support/builders.ts";
import { clickBefore, purchase, refund, shop, type Written } from "../support/shop.ts";

const ten = contract();
const twenty = { ...ten, version: 2, rate_ppm: 200_000n, recorded_at: noon + hourMs };
const rows: Partial<ReferenceRows> = { partners: [partner()], contracts: [ten] };
const sale = (event_id: string, product_id: string, revenue = "100.00"): Written =>
  purchase({ event_id, svc_click_id: clickBefore(hourMs) }, { product_id, revenue });

/** `then` arrives after the contract was saved with twice the rate. */
const earned = async (
  first: readonly { readonly event: Written; readonly isClientSide?: boolean }[],
  then: readonly Written[],
): Promise<Readonly<Record<string, bigint>>> => {
  const world = shop(rows);
  for (const { event, isClientSide = false } of first) await world.post([event], { isClientSide });
  world.learn({ ...rows, contracts: [ten, twenty] });
  await world.post(then, { receivedAt: noon + 2 * hourMs });
  const products = new Map(
    world.conversions().map(({ conversion_id, product_id }) => [conversion_id, String(product_id)]),
  );
  const sums: Record<string, bigint> = {};
  for (const { conversion_id, amount_minor } of world.entries()) {
    const product = products.get(conversion_id)!;
    sums[product] = (sums[product] ?? 0n) + amount_minor;
  }
  return sums;
};

describe("the contract that was known when a sale was credited holds", () => {
  test("when its refunds are spread again over a line that comes later", async () => {
    const before = [{ event: sale("a1", "a") }, { event: refund({ event_id: "r1" }, { amount: "150.00" }) }];
    expect(await earned(before, [sale("b1", "b")])).toEqual({ a: 2_50n, b: 5_00n });
  });
  test("when a server's copy changes its money", async () =>
    expect(await earned([{ event: sale("p1", "a"), isClientSide: true }], [sale("s1", "a", "90.00")])).toEqual({
      a: 9_00n,
    }));
  test("when another line of its order makes it wait", async () => {
    const total = { ...sale("t1", ""), t: "ext_purchase" };
    const before = [{ event: { ...total, props: { order_id: "o1", revenue: "150.00" } } }];
    expect(await earned(before, [sale("b1", "b", "80.00")])).toEqual({ null: 15_00n, b: 16_00n });
  });
});
