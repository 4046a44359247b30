// Compares a shop's own list of orders with ours: every difference has a reason.
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  compareOrders,
  type OurOrder,
  type ReconcileInput,
  type ShopOrder,
} from "../../modules/figures/reports/reconcile.ts";

const shop = (order_id: string, amount: bigint | null = 10_000n, over: Partial<ShopOrder> = {}): ShopOrder => ({
  ...{ order_id, amount, currency: "MXN", line: 2 },
  ...over,
});
const here = (order_id: string, amount = 10_000n, currency = "MXN"): OurOrder => ({ order_id, amount, currency });
const compared = (known: Partial<ReconcileInput>) =>
  compareOrders({ shop: [], ours: [], others: [], onTheWay: 0, ...known });
const reasons = (known: Partial<ReconcileInput>) =>
  compared(known).differences.map(({ side, order_id, reason }) => [side, order_id, reason]);

test("what is the same is counted and not listed, also over several lines of one order", () => {
  const found = compared({
    shop: [shop("o1", 4_000n), shop("o1", 6_000n), shop(" o2 ")],
    ours: [here("o1"), here("o2")],
  });
  expect(found).toEqual({ shop_orders: 2, our_orders: 2, same: 2, differences: [] });
});

test("what only the shop has says why it is not here", () => {
  const only = "only the shop";
  expect(
    reasons({
      shop: [shop("A-17"), shop("o2", 1n, { currency: "USD" }), shop("test"), shop(""), shop("o5"), shop("o6")],
      ours: [here("a17"), here("o2")],
      others: [{ order_id: "o5", type: "purchas" }],
    }).filter(([side]) => side === only),
  ).toEqual([
    [only, "A-17", "spelled otherwise: here it is a17"],
    [only, "o2", "it is here in MXN"],
    [only, "test", '"test" is a placeholder: each of its sales is an order of its own here'],
    [only, "", "the row has no order id"],
    [only, "o5", "it came as purchas, which is no sale: send it as purchase"],
    [only, "o6", "never received, or refused when it was sent (see the answer of its batch, and tributary dlq list)"],
  ]);
  expect(reasons({ shop: [shop("o6")], onTheWay: 5_884 })).toEqual([
    [
      only,
      "o6",
      "never received, or refused when it was sent (see the answer of its batch, and tributary dlq list), " +
        "or one of the 5,884 events on their way",
    ],
  ]);
  expect(reasons({ shop: [shop("o6")], onTheWay: null })[0]![2]).toContain("the log does not answer");
});

test("what only we have, and what differs, is listed with both amounts", () => {
  const { differences } = compared({
    shop: [shop("o1", 9_000n), shop("o2", 11_000n)],
    ours: [here("o1"), here("o2"), here("o9")],
  });
  expect(differences).toMatchObject([
    {
      side: "both",
      order_id: "o1",
      shop: "90.00",
      here: "100.00",
      line: 2,
      reason: expect.stringMatching(/or an amount/),
    },
    { side: "both", order_id: "o2", shop: "110.00", here: "100.00", reason: expect.stringMatching(/or an amount/) },
    { side: "only here", order_id: "o9", shop: null, here: "100.00" },
  ]);
});

test("a file without amounts is compared by ids alone", () =>
  expect(compared({ shop: [shop("o1", null)], ours: [here("o1")] }).differences).toEqual([]));

test("every order is the same, differs, or is on one side, and none of them is lost", () => {
  const id = fc.constantFrom("o1", "o2", "O-1", " o1", "test", "", "o3");
  const amount = fc.bigInt({ min: 0n, max: 10n });
  const currency = fc.constantFrom("MXN", "USD");
  fc.assert(
    fc.property(
      fc.array(fc.record({ order_id: id, amount, currency, line: fc.nat() })),
      fc.array(fc.record({ order_id: id, amount, currency })),
      (theirs, ours) => {
        const { shop_orders, our_orders, same, differences } = compared({ shop: theirs, ours });
        const on = (side: string) => differences.filter((one) => one.side === side).length;
        expect(same + on("both") + on("only the shop")).toBe(shop_orders);
        expect(same + on("both") + on("only here")).toBe(our_orders);
      },
    ),
  );
});
