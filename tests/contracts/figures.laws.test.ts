// Law C7 for money: the figures of a client agree with its report, its rollups and its ledger, in
// total and by day, partner and segment, whatever was sold and refunded when.
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import { toDecimal } from "../../domain/money.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { clickFigures } from "../../modules/figures/reads/click-figures.ts";
import { periodsOf } from "../../modules/figures/reads/periods.ts";
import { type SplitBy, soldFigures } from "../../modules/figures/reads/sold-figures.ts";
import { earnedByDay } from "../../modules/figures/reports/earned-by-day.ts";
import { report } from "../../modules/figures/reports/report.ts";
import { figuresByDay } from "../../modules/figures/rollups/rollup-reads.ts";
import { attributed, hourMs } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { settleRollups, storeEvents, storeLine } from "../support/sold.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => Promise.all([pool.end(), clickhouse.close()]));

let tenants = 700_000_000 + (Date.now() % 1_000_000) * 100;
const BY: readonly SplitBy[] = ["day", "partner_id", "campaign_id", "event_type", "segment"];
const span = { from: startOfDay("2026-05-01"), to: startOfDay("2026-08-01") };

/** Around midnight and the ends of months in Mexico City, which is six in the morning in UTC. */
const moment = fc
  .tuple(
    fc.constantFrom(Date.UTC(2026, 5, 1, 6), Date.UTC(2026, 5, 16, 6), Date.UTC(2026, 6, 1, 6)),
    fc.nat({ max: 4 }),
  )
  .map(([midnight, n]) => midnight + [-hourMs, -1, 0, 1, hourMs][n]!);
const line = fc.record({
  at: moment,
  partner_id: fc.constantFrom(21, 22),
  campaign_id: fc.constantFrom(31, 32, null),
  order: fc.integer({ min: 1, max: 4 }),
  value: fc.integer({ min: 0, max: 1_000_000 }),
  refund: fc.constantFrom(0, 50, 100),
  segment: fc.constantFrom("MX", "VD", null),
  isHeld: fc.boolean(),
});

/** Whether some of a line is left; a line that was refunded as a whole is credited with nothing. */
const isKept = ({ value, refund }: { readonly value: number; readonly refund: number }): boolean => {
  const givenBack = Math.floor((value * refund) / 100);
  return givenBack === 0 || givenBack < value;
};

test("figures agree with report, rollups and ledger, and every split adds up to its total", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 8 }), async (lines) => {
      const client_id = ++tenants;
      for (const [n, { order, value, refund, ...one }] of lines.entries()) {
        const commission = BigInt(Math.floor(value / 10));
        await storeLine(
          { pool, clickhouse },
          {
            ...{ ...one, client_id, n: n + 1, order_id: `o${order}`, value: BigInt(value), commission },
            ...{ refunded: BigInt(Math.floor((value * refund) / 100)) },
            ...{ taken_back: (commission * BigInt(refund)) / 100n },
          },
        );
      }
      await settleRollups({ pool, clickhouse });
      const periods = periodsOf(span, Date.now(), Date.now());
      const asked = { clients: [client_id], periods, by: BY, kinds: ["sold", "credited", "earned"] as const };
      const found = await transaction(pool, [client_id], (tx) => soldFigures(tx, asked), { isReadOnly: true });
      const sum = (kind: string, by: string, name: "amount" | "refunded") =>
        found.reduce(
          (all, one) =>
            one.kind === kind && one.by === by && one.currency === "MXN" && one.period === "current"
              ? all + one[name]
              : all,
          0n,
        );
      for (const by of BY) {
        expect(sum("sold", by, "amount"), by).toBe(sum("sold", "total", "amount"));
        expect(sum("sold", by, "refunded"), by).toBe(sum("sold", "total", "refunded"));
        expect(sum("earned", by, "amount"), by).toBe(sum("earned", "total", "amount"));
      }
      // The previous period may end within a day, for which no daily sum exists.
      const cut = Date.UTC(2026, 5, 16, 6) + 1;
      const cutOff = {
        current: { from: Date.UTC(2026, 6, 1, 6), to: span.to },
        previous: { from: span.from, to: cut },
      };
      const ofCut = await transaction(pool, [client_id], (tx) => soldFigures(tx, { ...asked, periods: cutOff }));
      const before = lines.filter(({ at }) => at < cut);
      const total = (kind: string) =>
        ofCut.find(
          (one) => one.kind === kind && one.by === "total" && one.period === "previous" && one.currency === null,
        );
      expect(total("sold")?.n ?? 0).toBe(new Set(before.map(({ order }) => order)).size);
      expect(total("sold")?.amount ?? 0n).toBe(before.reduce((all, one) => all + BigInt(one.value), 0n));
      expect(total("credited")?.n ?? 0).toBe(before.filter(isKept).length);
      const months = (await report(pool, client_id, "month")).rows;
      const reported = (name: "revenue" | "refunded" | "commission") =>
        months.reduce((all, row) => all + BigInt(row[name].replace(".", "")), 0n);
      expect(sum("sold", "total", "amount")).toBe(reported("revenue"));
      expect(sum("sold", "total", "refunded")).toBe(reported("refunded"));
      expect(sum("earned", "total", "amount")).toBe(reported("commission"));
      const orders = found.find((one) => one.kind === "sold" && one.by === "total" && one.currency === null)?.n;
      expect(orders).toBe(new Set(lines.map(({ order }) => order)).size);
      const credited = found.find((one) => one.kind === "credited" && one.by === "total" && one.currency === null)?.n;
      expect(credited ?? 0).toBe(lines.filter(isKept).length);
      const ofDay = (kind: string) =>
        found
          .filter((one) => one.kind === kind && one.by === "day" && one.currency === "MXN" && one.amount !== 0n)
          .map(({ value, amount }) => `${value} ${toDecimal(amount, "MXN")}`)
          .sort();
      const rolled = await figuresByDay(clickhouse, scopeOf(client_id), span);
      expect(ofDay("sold")).toEqual(
        rolled
          .filter((row) => row.revenue_minor !== 0n)
          .map((row) => `${row.day} ${toDecimal(row.revenue_minor, "MXN")}`),
      );
      const earned = await earnedByDay(pool, [client_id], span);
      expect(ofDay("earned")).toEqual(
        earned
          .filter((row) => row.amount_minor !== 0n)
          .map((row) => `${row.day} ${toDecimal(row.amount_minor, "MXN")}`),
      );
      expect(new Set(lines.map(({ at }) => dayOf(at)))).toEqual(new Set(rolled.map(({ day }) => day)));
      const none = { clients: [client_id], periods, by: [], mostMs: 5_000 };
      expect((await clickFigures(clickhouse, none)).total.current.clicks).toBe(0);
    }),
    { numRuns: 8 },
  );
});

test("a click of a page is no click of a tracking link, and figures leave it out", async () => {
  const client_id = ++tenants;
  const clicks = ["pixel", "pixel", "link"].map((source, n) =>
    attributed({
      ...{ client_id, event_id: `00000000-0000-8000-8000-00000000000${n}`, did: `d${n}` },
      ...{ t: "click", source, ts: Date.UTC(2026, 5, 10, 18) },
    }),
  );
  await storeEvents({ pool, clickhouse }, ...clicks);
  await settleRollups({ pool, clickhouse });
  const periods = periodsOf(span, Date.now(), Date.now());
  const { total } = await clickFigures(clickhouse, { clients: [client_id], periods, by: [], mostMs: 5_000 });
  expect(total.current.clicks).toBe(1);
});
