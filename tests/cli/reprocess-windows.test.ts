// A window that holds only a part of an order: its other lines stay unchanged, and both parts are
// judged together.
import { describe, expect, test } from "vitest";
import type { ReferenceRows, Rule } from "../../domain/reference/reference.ts";
import { decisionOnLine } from "../../processors/settle/decision-claim.ts";
import type { DecisionKind, EventReceived } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, crediting, dayMs, hourMs, noon, partner, rule } from "../support/builders.ts";
import { type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { purchase, refund } from "../support/shop.ts";

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
/** A claim ends when its line is wholly given back, or a person takes it from its partner. */
const ends: Readonly<Record<string, (world: Reprocessed, product_id: string, hour: number) => Promise<void>>> = {
  refund: (world, product_id, hour) =>
    world.post([refund({ event_id: `refund-${product_id}` }, { product_id })], { receivedAt: noon + hour * hourMs }),
  reject: (world, product_id, hour) => decide(world, "reject", product_id, hour),
  take_back: (world, product_id, hour) => decide(world, "take_back", product_id, hour),
};
const decide = (
  world: Reprocessed,
  kind: DecisionKind,
  product_id: string,
  hour: number,
  to: number | null = null,
  about?: EventReceived,
): Promise<void> => {
  const at = noon + hour * hourMs;
  const decision_id = `00000000-0000-8000-8000-${`${made++}`.padStart(12, "0")}`;
  const said = { actor: "user:ana", partner_id: to, campaign_id: null, reason: "by phone", at, flags: [] };
  const event = about ?? { event_id: decision_id, t: "purchase", order_id: "o1", product_id };
  const limits = { review_from: 101, reject_from: 101 };
  return world.send(topics.claims, {
    data: decisionOnLine(clientId, event, { decision_id, kind, ...said, ...limits }),
    at,
  });
};
let made = 0;

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

/** Reprocessed around either claim, or around both, nothing changes. */
const expectUnchanged = async (world: Reprocessed, hours: number): Promise<void> => {
  for (const [from, to] of [
    [-5, 5],
    [hours - 5, hours + 5],
    [-5, 90],
  ] as const)
    expect((await world.difference(before, window(from, to))).changes).toEqual([]);
};

describe.each(Object.entries(ends))("a claim that ended by a %s", (_, end) => {
  test("before another partner's line came holds it in no window", async () => {
    for (const hours of [20, 60]) {
      const world = reprocessed(before);
      await sell(world, "a", "FIVE", 0);
      await end(world, "a", 1);
      await sell(world, "b", "SIX", hours);
      expect(lines(world)).toContain("b 22");
      await expectUnchanged(world, hours);
    }
  });

  test("after another partner's line came still holds it in every window", async () => {
    for (const hours of [20, 60]) {
      const world = reprocessed(before);
      await sell(world, "a", "FIVE", 0);
      await sell(world, "b", "SIX", hours);
      await end(world, "a", hours + 1);
      expect(lines(world)).toContain("b 22 claimed_by_another_partner");
      await expectUnchanged(world, hours);
    }
  });
});

test("a line behind the window is not held by one that had been given back before it came", async () => {
  for (const [returned, expected] of [
    [10, "b 21"],
    [70, "b 21 claimed_by_another_partner"],
  ] as const) {
    const world = reprocessed(before);
    await sell(world, "a", "TEN", 0);
    if (returned === 10) await ends.refund!(world, "a", returned);
    await sell(world, "b", "FIVE", 60);
    if (returned === 70) await ends.refund!(world, "a", returned);
    world.learn(after);
    await world.write(await world.difference(after, window(-5, 5)));
    expect(lines(world)).toContain(expected);
    expect((await world.difference(after, window(-5, 90))).changes).toEqual([]);
  }
});

test("who held a line between two decisions about it holds others in every window", async () => {
  const world = reprocessed(before);
  await sell(world, "a", "FIVE", 0);
  await decide(world, "reattribute", "a", 1, other);
  await sell(world, "b", "FIVE", 60);
  await decide(world, "reattribute", "a", 61, one);
  await sell(world, "c", "SIX", 62);
  expect(lines(world)).toEqual(["a 21", "b 21 claimed_by_another_partner", "c 22 claimed_by_another_partner"]);
  expect((await world.difference(before, window(55, 65))).changes).toEqual([]);
});

test("a refund that was held until later takes nothing before, in any window", async () => {
  const world = reprocessed(before);
  const refunded = (event_id: string, hour: number, source: string): Promise<void> =>
    world.post([refund({ event_id }, { product_id: "a", amount: "50.00" })], {
      receivedAt: noon + hour * hourMs,
      source,
    });
  await sell(world, "a", "FIVE", 0);
  await refunded("refund-1", 1, "batch");
  await refunded("refund-2", 2, "postback:stripe");
  await sell(world, "b", "SIX", 60);
  const second = [...world.current().values()].find(({ event }) => event.sender_event_id === "refund-2")!;
  expect(second.event.warnings).toContain("refund_twice");
  await decide(world, "release", "a", 61, null, second.event);
  expect(lines(world)).toEqual(["b 22 claimed_by_another_partner"]);
  for (const from of [-5, 55]) expect((await world.difference(before, window(from, 65))).changes).toEqual([]);
});
