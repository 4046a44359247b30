// A rule is applied to a shop's past: its decisions give the result of the trial, and a second run
// makes none.
import { describe, expect, test } from "vitest";
import type { ReferenceRows } from "../../domain/reference/reference.ts";
import type { Match, Page } from "../../modules/money/trials/evaluate.ts";
import { openSummary } from "../../modules/money/trials/summary.ts";
import type { TriedRule } from "../../modules/money/trials/try-rule.ts";
import { clientId, contract, crediting, hourMs, partner, rule } from "../support/builders.ts";
import { type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { clickBefore, pageView, purchase, refund, type Written } from "../support/shop.ts";
import { triedOn } from "../support/tried.ts";

const [first, second] = [22, 23];
const coupon = { field: "coupon", op: "eq", value: "TEN" } as const;
const people: Partial<ReferenceRows> = {
  partners: [partner(), partner({ partner_id: first }), partner({ partner_id: second })],
  contracts: [
    contract(),
    contract({ contract_id: 62, partner_id: first }),
    contract({ contract_id: 63, partner_id: second }),
  ],
};
const tried = (partner_id = first, over: Partial<TriedRule> = {}): TriedRule => ({
  ...{ rule_id: 51, version: 1, client_id: clientId, priority: 0, mode: "alone" as const, when: coupon },
  ...crediting(partner_id),
  ...over,
});
const order = (name: string, over: Written = {}, props: Written = { coupon: "TEN" }): Written =>
  purchase({ event_id: `purchase-${name}`, did: `device-${name}`, ...over }, { order_id: name, ...props });
const sold = async (rows: Partial<ReferenceRows>, ...events: readonly Written[]): Promise<Reprocessed> => {
  const made = reprocessed(rows);
  for (const event of events) await made.post([event]);
  return made;
};
const matchesIn = (pages: readonly Page[]): readonly Match[] => pages.flatMap(({ matches }) => matches);
/** The decisions that a backfill writes. */
const changesIn = (pages: readonly Page[]) => ({
  changes: matchesIn(pages).flatMap(({ change, fate }) => (change !== undefined && fate === "sent" ? change : [])),
});
const deltasIn = (pages: readonly Page[]) => {
  const summary = openSummary();
  for (const page of pages) summary.add(page);
  return Object.fromEntries(
    summary
      .result()
      .deltas.map((one) => [`${one.partner_id} ${one.year}-${one.month} ${one.currency}`, one.amount_minor]),
  );
};
const differing = (before: Readonly<Record<string, bigint>>, after: Readonly<Record<string, bigint>>) =>
  Object.fromEntries(
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .map((key) => [key, (after[key] ?? 0n) - (before[key] ?? 0n)] as const)
      .filter(([, minor]) => minor !== 0n),
  );

describe("what a trial says in money", () => {
  test("is what its decisions book, also with refunds, other holders and orders of several lines", async () => {
    const rows = {
      ...people,
      rules: [rule({ when: { field: "coupon", op: "exists", value: true }, ...crediting(second) })],
    };
    const shop = await sold(
      rows,
      order("o1"),
      order("o2", {}, { coupon: "TEN", revenue: "250.00" }),
      order("o3", { did: "d3" }, { coupon: "OTHER" }),
      order("o4", { svc_click_id: clickBefore(hourMs) }),
      refund({ event_id: "back-2", did: "device-o2" }, { order_id: "o2", amount: "50.00" }),
      pageView({ event_id: "view-1", did: "d9", props: { coupon: "TEN" } }),
    );
    const pages = await triedOn(shop, rows, { rule: tried() });
    expect(matchesIn(pages).map(({ stored }) => stored.event.sender_event_id)).toEqual(
      expect.arrayContaining(["purchase-o1", "purchase-o2", "view-1"]),
    );
    expect(matchesIn(pages)).toHaveLength(3);
    const before = shop.earnings();
    await shop.write(changesIn(pages));
    const moved = differing(before, shop.earnings());
    expect(deltasIn(pages)).toEqual(moved);
    expect(Object.keys(moved)).toHaveLength(2);
    expect(Object.values(moved).reduce((sum, minor) => sum + minor, 0n)).toBe(0n);
    const again = await triedOn(shop, rows, { rule: tried() });
    expect(changesIn(again).changes).toEqual([]);
    expect(deltasIn(again)).toEqual({});
  });

  test("a page view has its next version, credited by the rule", async () => {
    const shop = await sold(people, pageView({ event_id: "view-1", props: { coupon: "TEN" } }));
    await shop.write(changesIn(await triedOn(shop, people, { rule: tried() })));
    const [row] = [...shop.current().values()];
    expect(row).toMatchObject({ version: 2, credit: { method: "rule", rule_id: 51, partner_id: first } });
  });
});

test("credited without recalculation it earns nothing, and all of it when it is booked again", async () => {
  const shop = await sold(people, order("o1"), order("o2"));
  const quiet = await triedOn(shop, people, { rule: tried(), recalculates: false });
  expect(deltasIn(quiet)).toEqual({});
  await shop.write(changesIn(quiet));
  expect(shop.earnings()).toEqual({});
  expect([...shop.current().values()].map(({ version, credit }) => [version, credit.partner_id])).toEqual([
    [2, first],
    [2, first],
  ]);
  const paid = await triedOn(shop, people, { rule: tried() });
  expect(matchesIn(paid).map(({ fate, change }) => [fate, change?.parts])).toEqual([
    ["sent", []],
    ["sent", []],
  ]);
  await shop.write(changesIn(paid));
  expect(shop.earnings()).toEqual(deltasIn(paid));
  expect(Object.values(deltasIn(paid))).toEqual([20_00n]);
});

test("decisions that were written and not settled are the same when they are made again", async () => {
  const shop = await sold(people, order("o1"), order("o2"));
  const [once, twice] = [
    await triedOn(shop, people, { rule: tried() }),
    await triedOn(shop, people, { rule: tried() }),
  ];
  expect(changesIn(twice).changes.map(({ decision_id }) => decision_id)).toEqual(
    changesIn(once).changes.map(({ decision_id }) => decision_id),
  );
  await shop.write(changesIn(once));
  const after = shop.earnings();
  await shop.write(changesIn(twice));
  expect(shop.earnings()).toEqual(after);
});

test("with the active rules it takes what it would win, and loses what it no longer meets", async () => {
  const saved = rule({ rule_id: 51, when: coupon, ...crediting(first) });
  const rows = { ...people, rules: [saved, rule({ rule_id: 52, priority: -1, when: coupon, ...crediting(second) })] };
  const shop = await sold(rows, order("o1"), order("o2", {}, { coupon: "NEW" }));
  const edited = tried(first, { mode: "with_active", when: { field: "coupon", op: "eq", value: "NEW" } });
  const moved = matchesIn(await triedOn(shop, rows, { rule: edited })).map(({ stored, before, after }) => [
    ...[stored.event.order_id, before.partner_id, after.partner_id],
  ]);
  expect(moved).toEqual(
    expect.arrayContaining([
      ["o1", first, second],
      ["o2", null, first],
    ]),
  );
});
