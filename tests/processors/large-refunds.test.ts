// A claim that changes no refund of an order is processed without spreading all refunds again.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import { spread } from "../../processors/settle/spread.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { hourMs, noon } from "../support/builders.ts";
import { pixelSale, refund, sale } from "../support/money-builders.ts";

const met = (order: OrderState, claim: Recorded<Claim>): OrderState => {
  const outcome = settle(claim, order, null);
  if (outcome.kind !== "emit") throw new Error(`settle emits, this was a ${outcome.kind}`);
  return outcome.state;
};
const takenIn = ({ lines }: Pick<OrderState, "lines">) =>
  lines.map(({ event_id, refunded_minor, is_returned }) => [event_id, refunded_minor, is_returned]);

const amounts = fc.option(fc.bigInt({ min: 1n, max: 80_00n }), { freq: 6 });
const product = fc.constantFrom("a", "b", "c");
const hours = fc.nat(120);
const happening = fc.oneof(
  fc.record({ is: fc.constant("sale" as const), product, hours, amount: fc.bigInt({ min: 0n, max: 100_00n }) }),
  fc.record({ is: fc.constant("copy" as const), product, hours, amount: fc.bigInt({ min: 0n, max: 100_00n }) }),
  fc.record({
    ...{ is: fc.constant("refund" as const), hours, amount: amounts },
    ...{
      product: fc.option(product),
      about: fc.option(fc.nat(7), { freq: 4 }),
      id: fc.option(fc.constantFrom("R", "S")),
    },
  }),
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

const eventId = (n: number): string => `e${n}`;
const claimOf = (one: Happening, n: number): Recorded<Claim> => {
  const given = { event_id: eventId(n), receivedAt: noon + one.hours * hourMs, product_id: one.product };
  if (one.is === "sale") return sale({ ...given, value_minor: one.amount });
  if (one.is === "copy") return pixelSale({ ...given, value_minor: one.amount });
  const named = one.about === null ? {} : { line_event_id: eventId(one.about), product_id: null };
  const props = JSON.stringify({ currency: "MXN", refund_id: one.id ?? undefined });
  return refund({ ...given, value_minor: one.amount, props, ...named });
};

describe("what refunds take of the lines of an order", () => {
  test("after every claim is what spreading all of them again would take", () => {
    fc.assert(
      fc.property(fc.array(happening, { minLength: 2, maxLength: 9 }), (history) => {
        let order = emptyOrder;
        const inOrder = history.toSorted((a, b) => a.hours - b.hours);
        for (const [n, one] of inOrder.entries()) {
          order = met(order, claimOf(one, n));
          const fresh = order.lines.map((line) => ({ ...line, refunded_minor: 0n, is_returned: false }));
          expect(takenIn(order)).toEqual(takenIn(spread(fresh, order.refunds)));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("is nothing of a line that turns out to be worth nothing, unless they name it", () => {
    const [pixel, server] = [pixelSale({ value_minor: 5n }), sale({ value_minor: 0n })];
    const of = (said: Parameters<typeof refund>[0]) => {
      const [line] = [pixel, refund({ value_minor: 5n, ...said }), server].reduce(met, emptyOrder).lines;
      return [line!.status, line!.value_minor, line!.is_returned];
    };
    expect(of({})).toEqual(["credited", 0n, false]);
    expect(of({ product_id: "sku1" })).toEqual(["reversed", 0n, true]);
  });

  test("is untouched by a refund that was received before others and comes after them", () => {
    const sales = [sale({ product_id: "a", value_minor: 10n }), sale({ product_id: "b", value_minor: 10n })];
    const refunds = [60, 61, 62].map((hour) => refund({ value_minor: 1n, receivedAt: noon + hour * hourMs }));
    const leftAfter = (claims: readonly Recorded<Claim>[]) => takenIn(claims.reduce(met, emptyOrder));
    expect(leftAfter([...sales, ...refunds.toReversed()])).toEqual(leftAfter([...sales, ...refunds]));
  });
});
