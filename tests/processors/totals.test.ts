// An order that is reported as a total and as lines: when they are one, and what a person keeps.
import fc from "fast-check";
import { expect, test } from "vitest";
import { order, orderFrom } from "../../processors/settle/memory.ts";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { strayRefunds } from "../../processors/settle/refund-claim.ts";
import { settle } from "../../processors/settle/settle.ts";
import { waitingOf } from "../../processors/settle/waiting-items.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contract, hourMs, noon } from "../support/builders.ts";
import { committed, decide, netByPartner, pixelSale, refund, sale, settled, terms } from "../support/money-builders.ts";
import { bytesOf, metBy, stateFrom } from "../support/remembered.ts";

const line = (product_id: string, minor: bigint, said: Parameters<typeof sale>[0] = {}) =>
  sale({ product_id, value_minor: minor, ...said });
const total = (minor: bigint, said: Parameters<typeof sale>[0] = {}) =>
  sale({ product_id: null, value_minor: minor, ...said });
const stateOf = (...claims: readonly Recorded<Claim>[]): OrderState =>
  claims.reduce<OrderState>((state, claim) => {
    const outcome = settle(claim, state, null);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    return outcome.state;
  }, emptyOrder);

test("a total is merged into its lines: it goes back first, then they are credited again, all for one cause", () => {
  const [whole, first, last] = [total(150_00n, { sid: "s1" }), line("a", 100_00n, { sid: null }), line("b", 50_00n)];
  const { conversions, rows } = settled(whole, first, last);
  const ofLast = conversions.filter(({ data }) => data.cause_event_id === last.id);
  expect(ofLast.map(({ data }) => [data.kind, data.product_id, data.value_minor, data.reason, data.review])).toEqual([
    ["reversed", null, 150_00n, "total_merged", "disputed_total"],
    ["reversed", "a", 100_00n, "total_merged", "disputed_total"],
    ["credited", "a", 100_00n, null, null],
    ["credited", "b", 50_00n, null, null],
  ]);
  expect(rows.find(({ event, version }) => event.event_id === whole.id && version === 2)).toMatchObject({
    merged_into: first.id,
    credit: { status: "unattributed", reason: "duplicate_order" },
  });
  expect(rows.find(({ event, version }) => event.event_id === first.id && version === 2)?.event.sid).toBe("s1");
  expect(stateOf(whole, first, last).lines.map(({ number, total_from }) => [number, total_from])).toEqual([
    [0, whole.id],
    [1, whole.id],
  ]);
});

test("a copy that corrects a total until lines come to it is a copy of the first of these lines", () => {
  const [unnamed, first, whole] = [line("n/a", 33_00n), line("a", 100_00n), total(300_00n)];
  const corrected = total(100_00n);
  const { rows } = settled(unnamed, whole, first, corrected);
  expect(rows.find(({ event }) => event.event_id === corrected.id)?.merged_into).toBe(first.id);
});

test("the room of a cap that the total had taken is that of its lines", () => {
  const capped = terms({ contract: contract({ cap: { period: "month", amount_minor: 15_00n }, currency: "MXN" }) });
  const { conversions } = settled(total(150_00n), line("a", 100_00n), line("b", 50_00n));
  const entries = committed(conversions, () => capped);
  expect(entries.reduce((sum, { amount_minor }) => sum + amount_minor, 0n)).toBe(15_00n);
  const held = entries.reduce((sum, { lines }) => {
    const own = lines.filter(({ account }) => account === "held:partner");
    return own.reduce((all, { amount_minor }) => all + amount_minor, sum);
  }, 0n);
  expect(held).toBe(0n);
});

test("in whatever order a total and its lines come, the same is left of both and of their refunds", () => {
  const amounts = fc.array(fc.bigInt({ min: 1n, max: 90_00n }), { minLength: 1, maxLength: 5 });
  const drawn = fc.record({ amounts, apart: fc.bigInt({ min: -2n, max: 2n }), back: fc.option(fc.nat(90_00)) });
  const history = drawn.chain(({ amounts: values, apart, back }) => {
    const sum = values.reduce((all, one) => all + one, 0n);
    const claims = [
      total(sum + apart),
      ...values.map((minor, n) => line(`p${n}`, minor)),
      ...(back === null ? [] : [refund({ value_minor: BigInt(back) + 1n })]),
    ];
    return fc.shuffledSubarray(claims, { minLength: claims.length, maxLength: claims.length });
  });
  const leftOf = (claims: readonly Recorded<Claim>[]) =>
    stateOf(...claims)
      .lines.map(({ product_key, review, partner_id }) => `${product_key} ${review} ${partner_id}`)
      .sort();
  fc.assert(
    fc.property(history, (claims) => {
      const lines = claims.filter(({ data }) => data.attributed.event.product_id !== null);
      // One line alone takes the amount of the one that came first.
      if (lines.length === 1) return;
      expect(leftOf(claims)).toEqual(leftOf(lines));
      expect(netByPartner(settled(...claims).conversions)).toEqual(
        netByPartner(settled(...claims.filter(({ data }) => data.kind === "refund"), ...lines).conversions),
      );
    }),
    { numRuns: 300 },
  );
});

test("a total and lines of another worth wait as disputed_total, until a release says which stands", () => {
  const claims = [total(150_00n), line("a", 100_00n)];
  const waiting = (...more: readonly Recorded<Claim>[]) =>
    waitingOf(stateOf(...claims, ...more), noon).map(({ kind, reason, product_id }) => [kind, reason, product_id]);
  const both = [
    ["held", "disputed_total", null],
    ["held", "disputed_total", "a"],
  ];
  expect(waiting()).toEqual(both);
  expect(waiting(decide("release"))).toEqual(both);
  for (const keep of ["total", "lines"]) {
    expect(waiting(decide("release", { keep }))).toEqual([]);
    expect(waiting(decide("release", { keep, line: "a" }))).toEqual([]);
    expect(netByPartner(settled(...claims, decide("release", { keep })).conversions)).toEqual({
      21: keep === "total" ? 150_00n : 100_00n,
    });
  }
});

test("a total that is kept is credited to the partner of its lines, if it has none", () => {
  const { conversions } = settled(
    pixelSale({ product_id: null, value_minor: 150_00n, partner: null }),
    line("a", 100_00n, { partner: 22 }),
    decide("release", { keep: "total" }),
  );
  expect(netByPartner(conversions)).toEqual({ 22: 150_00n });
});

test("a release that names what stands ends no other hold where nothing is disputed", () => {
  const state = stateOf(line("a", 100_00n, { band: "review" }), decide("release", { keep: "total" }));
  expect(state.lines.map(({ review }) => review)).toEqual(["fraud_review"]);
  expect(stateOf(decide("release", { keep: "lines" })).decisions).toEqual([]);
});

test("a refund of a part of a total that stands waits for its amount, by product and by event, and is no stray", () => {
  const [whole, part] = [total(150_00n), line("a", 100_00n)];
  const keep = decide("release", { keep: "total" });
  const about = (line_event_id: string) => refund({ line_event_id });
  for (const back of [refund({ product_id: "a" }), about(part.id)]) {
    const state = stateOf(whole, part, keep, back);
    expect(state.lines.map(({ refunded_minor }) => refunded_minor)).toEqual([0n]);
    expect(waitingOf(state, noon).map(({ kind, reason }) => `${kind} ${reason}`)).toEqual(["refund no_such_line"]);
    expect(strayRefunds(state)).toEqual([]);
  }
  for (const back of [refund(), about(whole.id)])
    expect(stateOf(whole, part, keep, back).lines.map(({ refunded_minor }) => refunded_minor)).toEqual([150_00n]);
});

test("a line that was held as order_total_and_lines before is released without a word about which stands", () => {
  const state = stateOf(total(150_00n), line("a", 100_00n));
  const before = { ...state, lines: state.lines.map((one) => ({ ...one, review: "order_total_and_lines" })) };
  const outcome = settle(decide("release"), before, null);
  if (outcome.kind !== "emit") throw new Error(outcome.kind);
  expect(outcome.state.lines.map(({ review }) => review)).toEqual([null, null]);
});

test("what is new of a line is left out of its bytes when it is empty, and read back when it is not", () => {
  const bytes = (state: OrderState): string => String(order.encode(state));
  for (const field of ["held_for", "stands", "total_from", "money_from", "amended_by", "totals"])
    expect(bytes(stateOf(line("a", 1n)))).not.toContain(`"${field}"`);
  for (const claims of [
    [total(150_00n, { band: "review" }), line("a", 100_00n)],
    [total(150_00n), line("a", 100_00n), line("b", 50_00n)],
    [total(150_00n), line("a", 100_00n), decide("release", { keep: "total" })],
  ]) {
    const state = stateOf(...claims);
    expect(stateFrom(order, ["k"], [order.encode(state)])).toEqual(state);
  }
});

test("a line of a large order meets the others only if they may come to its total with it", () => {
  const values = new Map<string, Uint8Array>();
  const take = (claim: Recorded<Claim>): number => {
    const { keys, state } = metBy(order, claim, values);
    const read = keys.filter((key) => values.has(key)).length;
    const outcome = settle(claim, state, null);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    for (const { key, value } of bytesOf(order, keys, state, outcome.state)) values.set(key, value);
    return read;
  };
  const whole = total(600_00n);
  take(whole);
  for (let n = 0; n < 40; n++) take(line(`sku-${n}`, 10_00n));
  for (let n = 40; n < 58; n++) expect(take(line(`sku-${n}`, 10_00n))).toBeLessThan(5);
  expect(take(line("sku-58", 10_00n, { receivedAt: noon + 47 * hourMs }))).toBeLessThan(5);
  const before = orderFrom(whole.key, (key) => values.get(key))!;
  expect(before.lines.map(({ review }) => review)).toEqual(Array.from({ length: 60 }, () => "disputed_total"));
  expect(take(line("sku-59", 10_00n, { receivedAt: noon + 48 * hourMs }))).toBeGreaterThan(30);
  const after = orderFrom(whole.key, (key) => values.get(key))!;
  expect(after.lines.map(({ review }) => review)).toEqual(Array.from({ length: 60 }, () => null));
  expect(take(line("sku-60", 10_00n))).toBeLessThan(5);
});
