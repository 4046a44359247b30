// The differences between two versions of a plan.
import { expect, test } from "vitest";
import { changesBetween, countsOf } from "../../modules/catalog/planner/changes.ts";
import type { PlanLine } from "../../modules/catalog/planner/plan.ts";

const line = (more: Partial<PlanLine> = {}): PlanLine => ({
  ...{ partner_id: 1, segment: null, budget_minor: 100n, target_conversions: 0, rate: null },
  ...more,
});

test("a line is the same line by partner and segment, whatever its place", () => {
  const [all, travel, other] = [line(), line({ segment: "MX" }), line({ partner_id: 2 })];
  expect(changesBetween([all, travel, other], [other, travel, all])).toEqual([]);
});

test("what is new, what is otherwise and what is gone are each one change", () => {
  const [kept, raised] = [line(), line({ segment: "MX", budget_minor: 200n })];
  const [gone, made] = [line({ partner_id: 2 }), line({ partner_id: 3 })];
  const changes = changesBetween([kept, { ...raised, budget_minor: 150n }, gone], [kept, raised, made]);
  expect(changes).toEqual([
    { before: { ...raised, budget_minor: 150n }, after: raised },
    { before: null, after: made },
    { before: gone, after: null },
  ]);
  expect(countsOf(changes)).toEqual({ added: 1, changed: 1, removed: 1 });
});

test("a rate that is given is a change against none", () =>
  expect(countsOf(changesBetween([line()], [line({ rate: "5" })]))).toEqual({ added: 0, changed: 1, removed: 0 }));
