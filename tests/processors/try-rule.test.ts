// Tries a rule on one stored event: the result equals the live attribution, and nothing is changed.
import { describe, expect, test } from "vitest";
import { standsAgainstRules, type TriedRule, tryRule } from "../../modules/money/trials/try-rule.ts";
import { ruleWindow } from "../../modules/money/trials/window.ts";
import { commission } from "../../processors/commission/commission.ts";
import type { Conversion, Credit, EventReceived, Fraud } from "../../schemas/generated.ts";
import type { StoredEvent } from "../../sinks/analytics/history.ts";
import { topics } from "../../topics.ts";
import {
  clickCredit,
  clientId,
  contract,
  conversion,
  credit,
  crediting,
  enrichment,
  fraud,
  noon,
  partner,
  partnerId,
  purchase,
  received,
  recorded,
  referenceWith,
  rule,
} from "../support/builders.ts";

const other = 22;
const known = (rules: Parameters<typeof referenceWith>[0] = {}) =>
  referenceWith({ partners: [partner(), partner({ partner_id: other })], ...rules });
const stored = (
  event: Partial<EventReceived> = {},
  standing: Partial<Credit> = {},
  found: Partial<Fraud> = {},
): StoredEvent => ({
  ...{ event: purchase(event), version: 1, merged_into: null, enrichment: enrichment(), fraud: fraud(found) },
  ...{ credit: credit(standing), received_at: noon },
});
const tried = (over: Partial<TriedRule> = {}): TriedRule => ({
  ...{ rule_id: 9, version: 2, client_id: clientId, priority: 0, mode: "alone" as const },
  when: { field: "t", op: "eq", value: "purchase" },
  ...crediting(other),
  ...over,
});

describe("alone", () => {
  test("it wins what it meets, under its id and version, whatever other rules say", () => {
    const rules = { rules: [rule({ rule_id: 1, priority: 100 })] };
    const made = tryRule(stored(), tried(), known(rules))!;
    expect(made).toMatchObject({ isMatch: true, lostTo: null, isConversion: true });
    expect(made.credit).toMatchObject({ method: "rule", partner_id: other, rule_id: 9, rule_version: 2 });
  });

  test("it does not win what it does not meet, what fraud refuses, nor for a partner who has paused", () => {
    const page = { ...stored(), event: received({ t: "page_view" }) };
    expect(tryRule(page, tried(), known())!.isMatch).toBe(false);
    expect(tryRule(stored({}, {}, { band: "reject" }), tried(), known())!.isMatch).toBe(false);
    expect(tryRule(stored({ order_id: "N/A" }), tried(), known())!.isMatch).toBe(false);
    const paused = { partners: [partner(), partner({ partner_id: other, status: "paused" })] };
    expect(tryRule(stored(), tried(), known(paused))!.isMatch).toBe(false);
  });

  test("what was found of clicks stays as it was found", () => {
    const click = { ...clickCredit().candidates[0]!, method: "click", reference: "c1", outcome: "click_expired" };
    const standing = { candidates: [click], clicked_at: noon - 1, window_days: 7 };
    const { credit: made } = tryRule(stored({ click_id: "c1" }, standing), tried(), known())!;
    expect(made).toMatchObject({ clicked_at: noon - 1, window_days: 7, method: "rule" });
    expect(made.candidates.map(({ method, outcome }) => [method, outcome])).toEqual([
      ["rule", "won"],
      ["click", "click_expired"],
    ]);
  });
});

test("with the active rules it loses to a stronger one, and says to which", () => {
  const rules = { rules: [rule({ rule_id: 1, priority: 1 })] };
  expect(tryRule(stored(), tried({ mode: "with_active" }), known(rules))).toMatchObject({ isMatch: false, lostTo: 1 });
  const stronger = tried({ mode: "with_active", priority: 2 });
  expect(tryRule(stored(), stronger, known(rules))).toMatchObject({ isMatch: true, lostTo: null });
  // The saved version of the same rule does not compete with it.
  const own = { rules: [rule({ rule_id: 9, priority: 1 })] };
  expect(tryRule(stored(), tried({ mode: "with_active" }), known(own))!.credit.partner_id).toBe(other);
});

test("what an event proves by itself, and what a person decided, stands against rules", () => {
  const by = (method: string): Credit => credit({ status: "attributed", method, partner_id: partnerId });
  expect(["click", "upload", "partner_param", "decision"].map((one) => standsAgainstRules(by(one)))).toEqual(
    Array(4).fill(true),
  );
  expect(["rule", "campaign", "identity"].map((one) => standsAgainstRules(by(one)))).toEqual(Array(3).fill(false));
  const decision = {
    ...{ method: "decision", reference: "d" },
    partner_id: null,
    campaign_id: null,
    outcome: "manual",
  };
  expect(standsAgainstRules(credit({ candidates: [decision] }))).toBe(true);
});

test("days are those of Mexico City, both included, 90 at most; a time means its day", () => {
  const day = { from: "2026-06-15T03:00:00Z", to: "2026-06-15T05:59:59-06:00" };
  expect(ruleWindow(day, noon)).toEqual({
    ...{ first_day: "2026-06-14", last_day: "2026-06-15" },
    ...{ from: Date.parse("2026-06-14T06:00:00Z"), to: Date.parse("2026-06-16T06:00:00Z") },
  });
  expect(ruleWindow({}, noon)).toMatchObject({ first_day: "2026-05-16", last_day: "2026-06-15" });
  expect(() => ruleWindow({ from: "2026-01-01", to: "2026-03-31" }, noon)).not.toThrow();
  expect(() => ruleWindow({ from: "2026-01-01", to: "2026-04-01" }, noon)).toThrow("/from: at most 90 days");
  expect(() => ruleWindow({ from: "2026-06-16" }, noon)).toThrow("/from: begin on the last day or before it");
});

test("a credit without recalculation is a zero entry that says so, and a later one earns", () => {
  const facts = { contract: contract(), holdDays: 0, openMonth: null, openMonthAt: () => null };
  const booked = (change: Partial<Conversion>, before: Parameters<typeof commission>[1]) => {
    const outcome = commission(recorded(topics.conversions, conversion(change)), before, facts);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    return { entry: outcome.events[0]!.data, memory: outcome.state };
  };
  const quiet = booked({ recalculates: false }, {});
  expect(quiet.entry).toMatchObject({ kind: "none", amount_minor: 0n, reason: "recalc_not_asked", contract_id: null });
  const back = booked({ kind: "reversed", version: 2, change_id: "chg_2", refunded_minor: 100_00n }, quiet.memory);
  expect(back.entry).toMatchObject({ kind: "none", amount_minor: 0n, reason: "recalc_not_asked" });
  expect(booked({ conversion_id: "cnv_2" }, back.memory).entry.kind).toBe("earned");
});
