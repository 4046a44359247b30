// The parts of figures: the spans that are compared, their ratios, and their freshness.
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { listCampaignOrders } from "../../apps/api/contract/figures/campaign-figures.ts";
import { listPartnerOrders } from "../../apps/api/contract/figures/partner-figures.ts";
import { shownTo } from "../../apps/api/contract/row-shapes.ts";
import { startOfDay } from "../../domain/calendar.ts";
import { freshnessOf } from "../../modules/figures/reads/data-freshness.ts";
import { daysOf, periodsOf } from "../../modules/figures/reads/periods.ts";
import { asOfFrom, openPositions } from "../../modules/figures/reads/positions.ts";
import { delta, each, ratio } from "../../modules/figures/reads/ratios.ts";

const hourMs = 3_600_000;
const span = (first: string, behind: string) => ({ from: startOfDay(first), to: startOfDay(behind) });
const iso = ({ from, to }: { from: number; to: number }) => [from, to].map((at) => new Date(at).toISOString());

describe("the period before", () => {
  const now = Date.UTC(2026, 10, 22, 21, 30);

  test("has as many days and ends where the asked one begins", () => {
    const { previous } = periodsOf(span("2026-06-01", "2026-06-16"), now, now);
    expect(previous).toEqual(span("2026-05-17", "2026-06-01"));
  });

  test("ends at the hour up to which today is known while the asked one ends today", () => {
    // It is half past three in the afternoon, and the figures are of ten past one.
    const asOf = now - 140 * 60_000;
    const { previous } = periodsOf(span("2026-11-16", "2026-11-23"), asOf, now);
    expect(iso(previous)).toEqual(["2026-11-09T06:00:00.000Z", "2026-11-15T19:00:00.000Z"]);
    expect(iso(periodsOf(span("2026-11-22", "2026-11-23"), now, now).previous)).toEqual([
      "2026-11-21T06:00:00.000Z",
      "2026-11-21T21:00:00.000Z",
    ]);
  });

  test("of a month that goes on is as much of the days before as of the month is known", () => {
    const { previous } = periodsOf(span("2026-11-01", "2026-12-01"), now, now);
    expect(iso(previous)).toEqual(["2026-10-02T06:00:00.000Z", "2026-10-23T21:00:00.000Z"]);
    const { previous: none } = periodsOf(span("2026-12-01", "2026-12-02"), now, now);
    expect(none.to).toBe(none.from);
  });

  test("never reaches into the asked one, however old figures are", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 1, max: 60 }), (hours, days) => {
        const current = span(new Date(Date.UTC(2026, 10, 23 - days, 12)).toISOString().slice(0, 10), "2026-11-23");
        const { previous } = periodsOf(current, now - hours * hourMs, now);
        expect(previous.to).toBeLessThanOrEqual(current.from);
        expect(previous.from).toBeLessThanOrEqual(previous.to);
      }),
    );
  });

  test("counts days of the calendar where a day has 23 or 25 hours", () => {
    // Summer time of 2022 began on 3 April and ended on 30 October.
    const spring = periodsOf(span("2022-04-03", "2022-04-04"), now, now);
    expect([spring.current.to - spring.current.from, spring.previous.to - spring.previous.from]).toEqual([
      23 * hourMs,
      24 * hourMs,
    ]);
    const autumn = span("2022-10-29", "2022-11-01");
    expect(daysOf(autumn, now)).toEqual(["2022-10-29", "2022-10-30", "2022-10-31"]);
    expect(periodsOf(autumn, now, now).previous).toEqual(span("2022-10-26", "2022-10-29"));
  });

  test("leaves days out that are still to come", () => {
    expect(daysOf(span("2026-11-21", "2026-12-01"), now)).toEqual(["2026-11-21", "2026-11-22"]);
    expect(daysOf(span("2026-12-01", "2026-12-02"), now)).toEqual([]);
  });
});

describe("a ratio", () => {
  test("has four decimals, half to even, and is null of nothing", () => {
    expect([ratio(1, 3), ratio(1, 20_000), ratio(3, 20_000), ratio(-1, 3), ratio(5, 0)]).toEqual([
      0.3333,
      0,
      0.0002,
      -0.3333,
      null,
    ]);
    expect([delta(180n, 200n), delta(5, 0), delta(-5, -10)]).toEqual([-0.1, null, -0.5]);
  });

  test("of money has the digits of its currency, and more where asked", () => {
    expect([each(10_00n, 3, "MXN"), each(10_00n, 3, "MXN", 2), each(-1n, 3, "MXN", 2), each(1n, 0, "MXN")]).toEqual([
      "3.33",
      "3.3333",
      "-0.0033",
      null,
    ]);
    expect([each(1_000n, 3, "JPY"), each(1_000n, 3, "JPY", 2)]).toEqual(["333", "333.33"]);
  });
});

describe("as_of", () => {
  const now = Date.UTC(2026, 10, 22);
  const none = { count: 0, seconds: 0 };
  const stage = (name: string, lag: number, age_sec: number) => ({ name, lag, age_sec });

  test("is when the log was asked while nothing waits", () => {
    expect(asOfFrom({ at: now - 3_000, stages: [stage("settle", 0, 0)] }, none, now)).toBe(now - 3_000);
  });

  test("is before the oldest record of any stage of figures, and before the oldest mark", () => {
    const stages = [stage("settle", 5, 600), stage("ledger", 1, 20), stage("archive", 9, 9_000)];
    expect(asOfFrom({ at: now, stages }, none, now)).toBe(now - 600_000);
    expect(asOfFrom({ at: now, stages }, { count: 1, seconds: 700.2 }, now)).toBe(now - 700_200);
  });

  test("is not waited for while the log is silent, and is not asked for twice", async () => {
    let asked = 0;
    const reads = openPositions(undefined as never, () => {
      asked += 1;
      return new Promise(() => undefined);
    });
    expect(await Promise.all([reads.latest(), reads.latest()])).toEqual([undefined, undefined]);
    expect(asked).toBe(1);
  });

  test("is of a fresh answer after a quiet time, also for the first who looks", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const reads = openPositions(undefined as never, async () => []);
      await reads.latest();
      vi.setSystemTime(Date.now() + 20 * 60_000);
      const positions = await reads.latest();
      expect(positions?.at).toBe(Date.now());
    } finally {
      vi.useRealTimers();
    }
  });

  test("is an old one while the log is silent, for which only the first readers wait", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      let isSilent = false;
      const reads = openPositions(undefined as never, async () => (isSilent ? new Promise(() => undefined) : []));
      const known = await reads.latest();
      isSilent = true;
      vi.setSystemTime(Date.now() + 20 * 60_000);
      expect(await reads.latest()).toBe(known);
      const began = performance.now();
      expect(await reads.latest()).toBe(known);
      expect(performance.now() - began).toBeLessThan(500);
    } finally {
      vi.useRealTimers();
    }
  });

  test("stays where it was while the log is away, and never goes on by itself", async () => {
    let isAway = false;
    let asked = 0;
    const reads = openPositions(undefined as never, async () => {
      asked += 1;
      if (isAway) throw new Error("the log is away");
      return [];
    });
    const [first, second] = await Promise.all([reads.latest(), reads.latest()]);
    expect([asked, first === second, first?.stages]).toEqual([1, true, []]);
    isAway = true;
    expect((await reads.latest())?.at).toBe(first?.at);
  });
});

describe("data-freshness", () => {
  const now = Date.UTC(2026, 10, 22);
  const known = (stages: readonly { name: string; lag: number; age_sec: number }[], at = now) => ({
    marks: { count: 0, seconds: 0 },
    positions: { at, stages },
    newest: new Map([[1, now - 60_000]]),
    now,
  });

  test("is as bad as its worst stage: degraded above a minute, down above fifteen", () => {
    const ages = (...seconds: readonly number[]) =>
      freshnessOf(known(seconds.map((age_sec, n) => ({ name: `s${n}`, lag: 1, age_sec })))).pipeline.status;
    expect([ages(0, 60), ages(0, 61), ages(900), ages(61, 901)]).toEqual(["ok", "degraded", "degraded", "down"]);
  });

  test("grows old while the log does not answer, and is down when it never did", () => {
    const quiet = [{ name: "product-sales", lag: 0, age_sec: 0 }];
    expect(freshnessOf(known(quiet, now - 30_000)).pipeline.status).toBe("ok");
    expect(freshnessOf(known(quiet, now - 1_000_000))).toMatchObject({
      relational_sync_lag_sec: 1_000,
      pipeline: { status: "down" },
    });
    const never = freshnessOf({ ...known([]), positions: undefined });
    expect([never.pipeline.status, never.relational_sync_lag_sec]).toEqual(["down", null]);
  });

  test("is stale without an event for a quarter of an hour, or ever", () => {
    const stale = (newest: ReadonlyMap<number, number>) => freshnessOf({ ...known([]), newest }).stale;
    expect([stale(new Map([[1, now - 900_000]])), stale(new Map([[1, now - 900_001]])), stale(new Map())]).toEqual([
      false,
      true,
      true,
    ]);
  });
});

test("a viewer does not see the evidence of fraud, which names addresses, and a partner no fraud field", () => {
  for (const contract of [listCampaignOrders, listPartnerOrders]) {
    const paths = (role: "admin" | "viewer" | "client_manager" | "partner") =>
      shownTo(contract, role).map((one) => one.path);
    for (const role of ["admin", "client_manager"] as const)
      expect(paths(role), role).toContain("fraud.reasons[].evidence");
    expect(paths("viewer").filter((path) => path.startsWith("fraud"))).toEqual([
      ...["fraud.score", "fraud.band", "fraud.reasons[].code", "fraud.reasons[].weight"],
    ]);
  }
  expect(shownTo(listPartnerOrders, "partner").some(({ path }) => path.startsWith("fraud"))).toBe(false);
});
