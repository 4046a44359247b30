// The nightly pass over distributions; every worked example of docs/fraud.md runs here.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { nightlyDefaults } from "../../domain/reference/thresholds.ts";
import { decisionsOf, type FlaggedConversion } from "../../modules/money/nightly/decisions.ts";
import { findingsOf, type PartnerCounts } from "../../modules/money/nightly/findings.ts";
import { flatnessOf, spans } from "../../modules/money/nightly/flatness.ts";
import { noon } from "../support/builders.ts";

const [hours, days] = spans as [(typeof spans)[0], (typeof spans)[0]];
const counts = (over: Partial<PartnerCounts> = {}): PartnerCounts => ({
  partner_id: 21,
  clicks: 0,
  conversions: 0,
  byHour: new Map(),
  ...over,
});
const found = (over: Partial<PartnerCounts>, thresholds = nightlyDefaults) =>
  findingsOf([counts(over)], thresholds).map(({ reason }) => `${reason.code} +${reason.weight}: ${reason.evidence}`);
/** `inHour` gives the number of conversions in each hour of the span. */
const spread = (from: number, to: number, inHour: (hour: number) => number): ReadonlyMap<number, number> =>
  new Map(Array.from({ length: to - from }, (_, n) => [from + n, inHour(from + n)]));

describe("a click flood", () => {
  test("is more than 10,000 clicks a day of which fewer than one in 10,000 converts", () => {
    expect(found({ clicks: 40_000, conversions: 3 })).toEqual([
      "click_flood +40: 40000 clicks in a day, 3 conversions",
    ]);
    expect(found({ clicks: 40_000, conversions: 4 })).toEqual([]);
    expect(found({ clicks: 10_001, conversions: 1 })).toEqual([
      "click_flood +40: 10001 clicks in a day, 1 conversions",
    ]);
    expect(found({ clicks: 10_000, conversions: 0 })).toEqual([]);
  });

  test("is judged by the client's own numbers", () => {
    expect(
      found({ clicks: 600, conversions: 1 }, { ...nightlyDefaults, flood_clicks: 500, flood_conversions_ppm: 2_000 }),
    ).toHaveLength(1);
  });
});

describe("times from click to conversion", () => {
  test("spread evenly over hours 2 to 24 are flat", () => {
    const byHour = spread(2, 24, () => 5);
    expect(flatnessOf(byHour, hours)).toEqual({ sample: 110, distance: 0 });
    expect(found({ byHour })).toEqual([
      "flat_distribution +30: 110 conversions in hours 2 to 24 after the click, 0.000 from an even spread",
    ]);
  });

  test("of people, whose chances fall like 1 / time, are not", () => {
    const inHours = flatnessOf(
      spread(2, 24, (hour) => Math.round(1_000 * Math.log((hour + 1) / hour))),
      hours,
    );
    const inDays = flatnessOf(
      spread(24, 168, (hour) => Math.round(10_000 * Math.log((hour + 1) / hour))),
      days,
    );
    expect([inHours.distance.toFixed(2), inDays.distance.toFixed(2)]).toEqual(["0.29", "0.23"]);
  });

  test("all at once are as far from flat as can be", () => {
    expect(flatnessOf(new Map([[2, 100]]), hours).distance).toBeCloseTo(21 / 22);
    expect(flatnessOf(new Map(), hours)).toEqual({ sample: 0, distance: 1 });
  });

  test("of fewer than 100 conversions say nothing", () => {
    expect(found({ byHour: spread(2, 24, (hour) => (hour < 13 ? 5 : 4)) })).toEqual([]);
  });

  test("are judged in each span by itself", () => {
    expect(found({ byHour: new Map([[0, 5_000], ...spread(24, 168, () => 1)]) })).toEqual([
      "flat_distribution +30: 144 conversions in days 2 to 7 after the click, 0.000 from an even spread",
    ]);
  });

  test("have a distance between 0 and 1, the same for any multiple of them", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(50), { minLength: 22, maxLength: 22 }),
        fc.integer({ min: 2, max: 9 }),
        (each, times) => {
          const one = flatnessOf(new Map(each.map((n, at) => [at + 2, n])), hours);
          const many = flatnessOf(new Map(each.map((n, at) => [at + 2, n * times])), hours);
          expect(one.distance >= 0 && one.distance <= 1).toBe(true);
          expect(many.distance).toBeCloseTo(one.distance);
        },
      ),
    );
  });
});

describe("a finding", () => {
  const conversion = (n: number, over: Partial<FlaggedConversion> = {}): FlaggedConversion => ({
    event: {
      event_id: `e${n}`,
      t: "purchase",
      order_id: `o${n}`,
      product_id: "sku1",
      did: "d1",
      source: "pixel",
      dedup_key: null,
      lead_key: null,
      sale_hash: null,
      warnings: [],
    },
    partner_id: 21,
    elapsed_ms: 5 * 3_600_000,
    codes: [],
    ...over,
  });
  const night = { client_id: 7, day: "2026-06-15", review_from: 40, reject_from: 70, at: noon };
  const flat = findingsOf([counts({ byHour: spread(2, 24, () => 5) })], nightlyDefaults);

  test("flags the conversions inside of its span, each once, under the key of its order", () => {
    const told = decisionsOf(
      flat,
      [
        conversion(1),
        conversion(2, { elapsed_ms: 3_600_000 }),
        conversion(3, { partner_id: 22 }),
        conversion(4, { codes: ["flat_distribution"] }),
      ],
      night,
    );
    expect(told.map(({ order_key, kind }) => [order_key, kind])).toEqual([["o:o1", "decision"]]);
    expect(told[0]!.decision).toMatchObject({
      kind: "flag",
      scope: "line",
      actor: "job:nightly",
      review_from: 40,
      reject_from: 70,
    });
  });

  test("has the same decision ids whenever the pass runs, others for each conversion, day and client", () => {
    const idsOf = (over: Partial<typeof night>) =>
      decisionsOf(flat, [conversion(1), conversion(2)], { ...night, ...over }).map(
        ({ decision }) => decision!.decision_id,
      );
    expect(idsOf({ at: noon + 1 })).toEqual(idsOf({}));
    expect(new Set([...idsOf({}), ...idsOf({ day: "2026-06-16" }), ...idsOf({ client_id: 8 })]).size).toBe(6);
  });
});
