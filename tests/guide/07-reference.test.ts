// Chapter 7: reference data. Contracts change, campaigns pause, rules are corrected. Past decisions
// stay, however often they are computed again.
import { describe, expect, test } from "vitest";
import {
  campaign,
  clientId,
  contract,
  crediting,
  dayMs,
  hourMs,
  longAgo,
  noon,
  partner,
  partnerId,
  referenceWith,
  rule,
} from "../support/builders.ts";
import { clickBefore, purchase, shop } from "../support/shop.ts";

// A row has two times. `valid_from` (for terms `effective_from`) says from when on it holds, in
// event time. `recorded_at` says since when we know it. Rows are appended, never edited. A stage
// asks for the row that is valid at the event's time, as known when the event was received. Both
// times are on the event, so the answer is the same today, in a year, and in a rewind.

const sale = purchase({ svc_click_id: clickBefore(hourMs) });
const later = purchase({ svc_click_id: clickBefore(hourMs), ts: noon + 2 * hourMs }, { order_id: "o2" });

/**
 * 10 %, and from one o'clock 20 %: the second row does not replace the first but is added to it.
 */
const tenPercent = contract();
const twentyPercent = contract({
  version: 2,
  rate_ppm: 200_000n,
  recorded_at: noon + hourMs,
  valid_from: noon + hourMs,
});

describe("a contract that is changed", () => {
  test("pays later sales by its new version", async () => {
    const { post, learn, entries } = shop({ contracts: [tenPercent] });
    await post([sale]);
    learn({ contracts: [tenPercent, twentyPercent] });
    await post([later], { receivedAt: noon + 2 * hourMs });
    expect(entries().map(({ amount_minor, contract_version }) => [amount_minor, contract_version])).toEqual([
      [10_00n, 1],
      [20_00n, 2],
    ]);
  });

  // Recorded outcomes alone would keep the past (chapter 4). This test shows the facts alone: a
  // pipeline without memory that knows all rows decides the old sale as the first one did.
  test("does not change the past, not even for a pipeline that has never seen it", async () => {
    const { post, entries } = shop({ contracts: [tenPercent, twentyPercent] });
    await post([sale]);
    await post([later], { receivedAt: noon + 2 * hourMs });
    expect(entries().map(({ amount_minor }) => amount_minor)).toEqual([10_00n, 20_00n]);
  });

  test("counts from the millisecond in which it is recorded", async () => {
    const { post, entries } = shop({ contracts: [tenPercent, twentyPercent] });
    await post([sale], { receivedAt: noon + hourMs - 1 });
    await post([purchase({ svc_click_id: clickBefore(hourMs) }, { order_id: "o2" })], { receivedAt: noon + hourMs });
    expect(entries().map(({ amount_minor }) => amount_minor)).toEqual([10_00n, 20_00n]);
  });

  // A refund takes back what was paid, under the terms of that payment.
  test("takes back by the version that had paid", async () => {
    const { post, learn, entries } = shop({ contracts: [tenPercent] });
    await post([sale]);
    learn({ contracts: [tenPercent, twentyPercent] });
    await post(
      [
        {
          ...sale,
          t: "refund",
          ts: noon + 2 * hourMs,
          props: { order_id: "o1", amount: "50.00", reason: "item_returned" },
        },
      ],
      {
        receivedAt: noon + 2 * hourMs,
      },
    );
    expect(entries().map(({ kind, amount_minor, contract_version }) => [kind, amount_minor, contract_version])).toEqual(
      [
        ["earned", 10_00n, 1],
        ["reversal", -5_00n, 1],
      ],
    );
  });
});

describe("a campaign that is paused", () => {
  // Paused at noon and saved at noon. Campaigns, links and partners have a history: before noon the
  // campaign ran, and that stays true.
  const campaigns = [campaign(), campaign({ status: "paused", recorded_at: noon, valid_from: noon })];
  const creditOf = async (ts: number, receivedAt: number) => {
    const { post, stored } = shop({ campaigns });
    await post([purchase({ svc_click_id: clickBefore(hourMs), ts })], { receivedAt });
    return stored()[0]!.credit;
  };

  test("gets no credit from then on", async () =>
    expect(await creditOf(noon, noon)).toMatchObject({ reason: "campaign_inactive" }));
  test("still credits a sale of before that arrives late", async () =>
    expect(await creditOf(noon - 1, noon + hourMs)).toMatchObject({ status: "attributed", partner_id: 21 }));
});

describe("a campaign that was paused an hour ago, as is noted only now", () => {
  // valid_from lies before recorded_at. Events received in between were judged by what was known
  // then, and always will be.
  const campaigns = [campaign(), campaign({ status: "paused", recorded_at: noon, valid_from: noon - hourMs })];
  test.each([
    ["received before the note, credits", noon - 1, { status: "attributed", partner_id: 21 }],
    ["received after it, does not", noon, { status: "unattributed", reason: "campaign_inactive" }],
  ])("a sale of half past eleven, %s", async (_, receivedAt, credit) => {
    const { post, stored } = shop({ campaigns });
    await post([purchase({ svc_click_id: clickBefore(hourMs), ts: noon - hourMs / 2 })], { receivedAt });
    expect(stored()).toMatchObject([{ credit }]);
  });
});

describe("a mistake that is corrected", () => {
  // At noon the row is saved that the coupon has belonged to partner 22 since January. The partner
  // who was credited before keeps the credit, because on that day nothing else was known. Moving it
  // is a decision with a name and a reason of its own, not a side effect of saving a form.
  const coupon = (over: object) => rule({ when: { field: "coupon", op: "eq", value: "TEN" }, ...over });
  const rows = {
    partners: [partner(), partner({ partner_id: 22 })],
    rules: [coupon({}), coupon({ version: 2, recorded_at: noon, valid_from: longAgo, ...crediting(22) })],
  };
  test("counts for what is received from then on, whenever it happened", async () => {
    const { post, stored } = shop(rows);
    for (const [order_id, receivedAt] of [
      ["before", noon - 1],
      ["after", noon],
    ] as const)
      await post([purchase({ ts: noon - hourMs }, { order_id, coupon: "TEN" })], { receivedAt });
    expect(stored().map(({ event, credit }) => [event.order_id, credit.partner_id, credit.rule_version])).toEqual([
      ["before", 21, 1],
      ["after", 22, 2],
    ]);
  });
});

// Stages get a snapshot that is complete up to the newest event of their batch. A snapshot that
// could not be refreshed is still used, because a store that is away must not stop the log; then
// the event says at which moment it was judged.

test("an event that came after the newest picture says how old that is", async () => {
  const { post, stored } = shop();
  const pictured = noon + dayMs;
  await post([sale, { ...later, ts: pictured + hourMs }], { receivedAt: pictured + hourMs });
  await post([purchase({}, { order_id: "o3" })]);
  expect(stored().map(({ event, credit }) => [event.order_id, credit.reference_as_of])).toEqual([
    ["o1", pictured],
    ["o2", pictured],
    ["o3", null],
  ]);
});

// The snapshot itself is a plain function of two times.

const ratesBy = (...contracts: readonly ReturnType<typeof contract>[]) => {
  const { at } = referenceWith({ contracts });
  return (validAt: number, knownAt: number) =>
    at(validAt, knownAt).contract({ client_id: clientId, partner_id: partnerId, segment: null, event_type: "purchase" })
      ?.rate_ppm;
};

test("20 % from noon on, agreed at one o'clock: one question, four answers", () => {
  const rate = ratesBy(
    tenPercent,
    contract({ contract_id: 62, rate_ppm: 200_000n, effective_from: noon, recorded_at: noon + hourMs }),
  );
  expect({
    "before noon, as known at noon": rate(noon - 1, noon),
    "after noon, as known at noon": rate(noon + 1, noon),
    "before noon, as known at one": rate(noon - 1, noon + hourMs),
    "after noon, as known at one": rate(noon + 1, noon + hourMs),
  }).toEqual({
    "before noon, as known at noon": 100_000n,
    "after noon, as known at noon": 100_000n,
    "before noon, as known at one": 100_000n,
    "after noon, as known at one": 200_000n,
  });
});

// Terms differ from other rows in one point: of a contract only the newest known version counts,
// whether it is in force or not.

test("a contract that was shortened does not live on in its older version", () => {
  const rate = ratesBy(tenPercent, contract({ version: 2, effective_to: noon, recorded_at: noon }));
  expect([rate(noon - 1, noon), rate(noon, noon)]).toEqual([100_000n, undefined]);
});
