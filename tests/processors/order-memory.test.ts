// The memory of orders: settle gives the same results for one value and for parts, and a claim on a
// large order reads and writes little.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { unpacked } from "../../infra/postgres/packed-values.ts";
import { keysOfOrder, MOST_TOGETHER, order, orderFrom, orderMemory } from "../../processors/settle/memory.ts";
import { emptyOrder, MOST_BESIDE_LINES, type OrderState } from "../../processors/settle/order.ts";
import { MOST_LINES, settle } from "../../processors/settle/settle.ts";
import type { Claim, Decision } from "../../schemas/generated.ts";
import type { MemoryOf, Recorded } from "../../stream/flow.ts";
import { hourMs, noon } from "../support/builders.ts";
import { decide, pixelSale, refund, reprocess, sale, settledBy } from "../support/money-builders.ts";
import { bytesOf, metBy } from "../support/remembered.ts";

const together = orderMemory(Number.POSITIVE_INFINITY);

/** Memory as a stage leaves it, with the bytes that the last claim read and wrote. */
const remembering = (memory: MemoryOf<OrderState>) => {
  const values = new Map<string, Uint8Array>();
  return {
    values,
    take: (claim: Recorded<Claim>) => {
      const { keys, state } = metBy(memory, claim, values);
      const outcome = settle(claim, state, null);
      if (outcome.kind !== "emit") return { outcome, read: [], written: [] };
      const written = bytesOf(memory, keys, state, outcome.state);
      for (const { key, value } of written) values.set(key, value);
      return { outcome, read: keys.filter((key) => values.has(key)), written };
    },
  };
};
const sizeOf = (all: readonly { readonly value: Uint8Array }[]): number =>
  all.reduce((sum, { value }) => sum + value.length, 0);

const products = fc.constantFrom("a", "b", "c", "d", null);
const names = fc.constantFrom(null, null, null, "subscription");
const receipts = fc.integer({ min: 0, max: 72 }).map((hours) => noon + hours * hourMs);
const kinds = fc.constantFrom<Decision["kind"]>("assign", "reattribute", "take_back", "release", "reject", "recredit");

const sales = fc
  .record({
    isPixel: fc.boolean(),
    partner: fc.constantFrom(21, 22, null),
    product_id: products,
    custom_name: names,
    value_minor: fc.constantFrom(null, 0n, 100n, 300n),
    currency: fc.constantFrom("MXN", "USD", null),
    band: fc.constantFrom("ok", "review", "reject"),
    receivedAt: receipts,
  })
  .map(({ isPixel, custom_name, ...said }) => {
    const t = custom_name === null ? "purchase" : "custom";
    return (): Recorded<Claim> => (isPixel ? pixelSale : sale)({ ...said, t, custom_name });
  });
const refunds = fc
  .record({
    product_id: products,
    value_minor: fc.option(fc.oneof(fc.constant(30n), fc.bigInt({ min: 1n, max: 400n }))),
    receivedAt: receipts,
    source: fc.constantFrom("shop", "stripe"),
    about: fc.option(fc.nat(8), { freq: 4 }),
  })
  .map(({ about, ...said }) => (claims: readonly Recorded<Claim>[]): Recorded<Claim> => {
    const named = about === null ? undefined : claims[about]?.id;
    return refund({ ...said, ...(named !== undefined && { line_event_id: named }) });
  });
const decisions = fc
  .record({
    kind: kinds,
    line: fc.option(products.filter((one) => one !== null)),
    partner_id: fc.constantFrom(21, 22),
    keep: fc.constantFrom("total", "lines", null),
  })
  .map(
    ({ kind, line, partner_id, keep }) =>
      (): Recorded<Claim> =>
        decide(kind, { partner_id, ...(line !== null && { line }), keep: kind === "release" ? keep : null }),
  );

const reprocessed = fc
  .record({
    version: fc.integer({ min: 1, max: 3 }),
    partner: fc.constantFrom(21, 22, null),
    line: products.filter((one) => one !== null),
    overrides: fc.boolean(),
  })
  .map(
    ({ version, ...said }) =>
      (): Recorded<Claim> =>
        reprocess(version, said),
  );

const histories = fc
  .array(
    fc.oneof(
      { weight: 5, arbitrary: sales },
      { weight: 2, arbitrary: refunds },
      { weight: 1, arbitrary: decisions },
      { weight: 2, arbitrary: reprocessed },
    ),
    { minLength: 1, maxLength: 14 },
  )
  .map((made) => {
    const claims: Recorded<Claim>[] = [];
    for (const make of made) claims.push(make(claims));
    return claims;
  });
const leads = fc
  .array(fc.record({ lead: fc.constantFrom(null, "l1", "l2", "l3"), hours: fc.nat(100) }), { maxLength: 8 })
  .map((made) =>
    made.map(({ lead, hours }) =>
      sale({
        ...{ t: "lead_submit", order_key: "l:ana", order_id: null, product_id: null },
        props: JSON.stringify(lead === null ? {} : { client_lead_id: lead }),
        at: noon + hours * hourMs,
      }),
    ),
  );

const byText = (all: readonly unknown[]): readonly string[] =>
  all.map((one) => JSON.stringify(one, (_, value) => (typeof value === "bigint" ? `${value}n` : value))).sort();

describe("an order that lies in parts", () => {
  test.each([0, 1, 3])("is settled as one in a single value, from line %i on", (mostTogether) => {
    fc.assert(
      fc.property(fc.oneof(histories, leads), (claims) => {
        const [whole, parted] = [together, orderMemory(mostTogether)].map((memory) => settledBy(memory, claims));
        expect(parted!.conversions).toEqual(whole!.conversions);
        expect(byText(parted!.rows)).toEqual(byText(whole!.rows));
      }),
      { numRuns: 200 },
    );
  });

  test("is read again as the state that was remembered", () => {
    fc.assert(
      fc.property(histories, (claims) => {
        const [whole, parted] = [together, orderMemory(1)].map((memory) => {
          const { values, take } = remembering(memory);
          for (const claim of claims) take(claim);
          return orderFrom(claims[0]!.key, (key) => values.get(key));
        });
        // A release about nothing leaves nothing to remember.
        if (whole === undefined) return expect(parted).toBe(undefined);
        const { refunds: asked, ...rest } = parted!;
        expect(rest).toEqual({
          ...rest,
          lines: whole!.lines,
          decisions: whole!.decisions,
          claimed_by: whole!.claimed_by,
        });
        expect(byText(asked)).toEqual(byText(whole!.refunds));
      }),
      { numRuns: 200 },
    );
  });

  test("whose head was stored before it counted claims holds for all who claimed it, until all of it is met", () => {
    const { values, take } = remembering(orderMemory(0));
    const key = sale().key;
    const heldAfter = (product_id: string): string | null | undefined => {
      const { outcome } = take(sale({ product_id, partner: 22 }));
      if (outcome.kind !== "emit") throw new Error(outcome.kind);
      return outcome.state.lines.find(({ product_key }) => product_key === product_id)?.review;
    };
    for (const claim of [sale({ product_id: "a" }), decide("reject", { line: "a" })]) take(claim);
    expect(heldAfter("b")).toBe(null);
    const head = String(values.get(key));
    expect(head).toContain('"claims":[[22,1]]');
    values.set(key, Buffer.from(head.replace(',"claims":[[22,1]]', "")));
    expect(heldAfter("c")).toBe("claimed_by_another_partner");
    take(decide("reattribute", { partner_id: 22 }));
    expect(String(values.get(key))).toContain('"claims":[[22,');
    expect(heldAfter("d")).toBe(null);
  });

  test("has keys that no order id can be another order's", () => {
    for (const key of ["7:o:part/3|7:o:o1", "7:o:|", "7:o:part"]) {
      const [own, ...parts] = keysOfOrder(key);
      expect(own).toBe(key);
      for (const part of parts) expect(part).toMatch(/^part\/\d+\|7:/);
      expect(new Set([own, ...parts]).size).toBe(257);
    }
  });
});

describe("a claim on a large order", () => {
  const line = (n: number, said: Parameters<typeof sale>[0] = {}) => sale({ product_id: `sku-${n}`, ...said });
  const filled = (memory: MemoryOf<OrderState>, lines: number) => {
    const one = remembering(memory);
    for (let n = 0; n < lines; n++) one.take(line(n));
    return one;
  };

  test("writes as little at the two-thousandth line as at the hundredth, and the next one is too many", () => {
    const { take } = filled(order, 100);
    const early = take(line(100));
    for (let n = 101; n < MOST_LINES - 1; n++) take(line(n));
    const late = take(line(MOST_LINES - 1));
    expect(sizeOf(late.written)).toBeLessThan(40_000);
    expect(late.read.length).toBeLessThan(5);
    expect(early.read.length).toBeLessThan(5);
    expect(take(line(MOST_LINES)).outcome).toEqual({ kind: "reject", reason: "order_too_large" });
    // Further copies, refunds of one line, and decisions on one line.
    for (const claim of [
      line(7, { did: "d9", value_minor: null }),
      refund({ product_id: "sku-8", value_minor: 1_00n }),
      decide("take_back", { line: "sku-9" }),
    ]) {
      const { written, read } = take(claim);
      expect(sizeOf(written)).toBeGreaterThan(0);
      expect(sizeOf(written)).toBeLessThan(60_000);
      expect(read.length).toBeLessThan(5);
    }
  }, 60_000);

  test("meets every line when it is about all of them", () => {
    const { take } = filled(order, 40);
    const { outcome } = take(decide("reattribute", { partner_id: 22 }));
    expect(outcome.kind === "emit" && outcome.events.filter(({ output }) => output === "attributed").length).toBe(40);
    const { outcome: refunded } = take(refund());
    expect(
      refunded.kind === "emit" &&
        refunded.events.filter(({ output, data }) => output === "conversions" && "kind" in data).length,
    ).toBe(40);
  });

  test("counts the refunds that it does not meet, also from a head that was written without their count", () => {
    const { take, values } = filled(orderMemory(0), 3);
    const back = (n: number) => take(refund({ product_id: `later-${n}`, value_minor: 1_00n })).outcome;
    for (let n = 0; n < MOST_BESIDE_LINES + 3; n++) expect(back(n).kind).toBe("emit");
    expect(back(-1)).toEqual({ kind: "reject", reason: "order_too_large" });
    const key = line(0).key;
    const head = String(values.get(key));
    values.set(key, Buffer.from(head.replace(`,"refunds":${MOST_BESIDE_LINES + 3}`, "")));
    expect(String(values.get(key))).not.toBe(head);
    expect(back(-1).kind).toBe("emit");
    expect(take(refund()).outcome.kind).toBe("emit");
  });
});

describe("an order of before", () => {
  /** Format 2: all lines in one value, however many. */
  const kept = (claims: readonly Recorded<Claim>[]): Map<string, Uint8Array> => {
    const { values, take } = remembering(together);
    for (const claim of claims) take(claim);
    return values;
  };
  const lines = Array.from({ length: 40 }, (_, n) => sale({ product_id: `sku-${n}` }));

  test("with many lines is laid in parts by the claim that changes it, and settled on as it was", () => {
    const values = kept([...lines, refund({ value_minor: 7_00n }), decide("take_back", { line: "later" })]);
    const key = lines[0]!.key;
    const whole = orderFrom(key, (one) => values.get(one))!;
    expect(String(values.get(key)).slice(0, 20)).toContain('"format":2');
    const claim = sale({ product_id: "sku-40" });
    const expected = settle(claim, whole, null);
    const { keys, state } = metBy(order, claim, values);
    const outcome = settle(claim, state, null);
    expect(outcome).toEqual(expected);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    for (const { key: one, value } of bytesOf(order, keys, state, outcome.state)) values.set(one, value);
    expect(String(values.get(key)).slice(0, 20)).toContain('"format":3');
    expect(values.get(key)!.length).toBeLessThan(3_000);
    const now = orderFrom(key, (one) => values.get(one))!;
    expect(now.lines).toEqual(outcome.state.lines);
    expect(now.decisions).toEqual(whole.decisions);
    expect(byText(now.refunds)).toEqual(byText(whole.refunds));
  });

  test("as an earlier version of this code packed it is read, and laid in parts when a claim changes it", () => {
    const file = new URL("order-format-2.base64", import.meta.url);
    const stored = unpacked(Buffer.from(readFileSync(file, "utf8"), "base64"));
    expect(String(stored.subarray(0, 11))).toBe('{"format":2');
    const key = lines[0]!.key;
    const values = new Map<string, Uint8Array>([[key, stored]]);
    const whole = orderFrom(key, (one) => values.get(one))!;
    // 18 products, one of them with a copy of another partner, and a custom sale; refunds of 30.00
    // on the whole order, of 7.00 on one line, and of a whole line that has not come.
    expect(whole.lines.map(({ number }) => number)).toEqual(Array.from({ length: 19 }, (_, n) => n));
    expect(whole.lines.reduce((sum, { refunded_minor }) => sum + refunded_minor, 0n)).toBe(37_00n);
    expect(whole.lines[3]).toMatchObject({
      product_key: "sku-3",
      review: "claimed_by_another_partner",
      partner_id: 21,
    });
    expect([whole.refunds.length, whole.decisions.length, whole.claimed_by]).toEqual([3, 1, [21, 22]]);
    for (const claim of [
      sale({ product_id: "sku-late", receivedAt: noon + 4 * hourMs }),
      sale({ product_id: "sku-later", receivedAt: noon + 4 * hourMs }),
      refund({ product_id: "sku-9", value_minor: 1_00n, receivedAt: noon + 5 * hourMs }),
      decide("release", { line: "sku-3", receivedAt: noon + 5 * hourMs }),
    ]) {
      const expected = settle(claim, orderFrom(key, (one) => values.get(one))!, null);
      const { keys, state } = metBy(order, claim, values);
      const outcome = settle(claim, state, null);
      if (outcome.kind !== "emit" || expected.kind !== "emit") throw new Error(outcome.kind);
      expect(outcome.events).toEqual(expected.events);
      for (const one of bytesOf(order, keys, state, outcome.state)) values.set(one.key, one.value);
    }
    expect(values.size).toBeGreaterThan(10);
    const { lines: now } = orderFrom(key, (one) => values.get(one))!;
    expect(now.slice(18).map(({ product_key, status, is_returned }) => [product_key, status, is_returned])).toEqual([
      ["", "credited", false],
      ["sku-late", "reversed", true],
      ["sku-later", "open", false],
    ]);
  });

  test("with few lines stays in one value, whose bytes are what they were", () => {
    const { values, take } = remembering(order);
    for (const claim of lines.slice(0, MOST_TOGETHER)) take(claim);
    expect([...values]).toEqual([...kept(lines.slice(0, MOST_TOGETHER))]);
    expect(String([...values.values()][0]).startsWith('{"format":2,"lines":[{"product_key"')).toBe(true);
  });

  test("that nothing is remembered of is no order", () => {
    expect(orderFrom("7:o:o1", () => undefined)).toBeUndefined();
    expect(order.stateOf([], [])).toEqual(emptyOrder);
  });
});
