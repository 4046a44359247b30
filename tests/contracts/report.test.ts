// The report by month: sold orders and money, refunds beside them, and commissions from the ledger.
// Months are those of Mexico City.
import { afterAll, describe, expect, test } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import { bys, type ReportBy, type ReportFilter, report, summary } from "../../modules/figures/reports/report.ts";
import type { EventReceived, LedgerEntry } from "../../schemas/generated.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { conversions } from "../../sinks/conversions/table.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { Table } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, conversion, noon, recorded } from "../support/builders.ts";
import { entry as ledgerEntry } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const pool = openPool(sharedStack().env.POSTGRES_URL!);
afterAll(() => pool.end());
let lastTenant = 500_000_000 + (Date.now() % 1_000_000) * 100;
const nextTenant = (): number => ++lastTenant;
let lastEvent = 0;

const write = <Row>(table: Table<Row>, tenant: number, rows: readonly Row[]) =>
  postgresStore(pool).within({ tenants: [tenant], token: "" }, (each) => table.write(rows, each));
interface Sale extends Partial<EventReceived> {
  readonly at?: number;
  readonly merged_into?: string;
}
const tell = (tenant: number, ...sales: readonly Sale[]) =>
  write(
    productSales,
    tenant,
    sales.flatMap(({ at = noon, merged_into = null, ...event }) => {
      const event_id = `00000000-0000-8000-8000-${String(++lastEvent).padStart(12, "0")}`;
      return saleRows(
        recorded(topics.eventsAttributed, attributed({ client_id: tenant, event_id, ...event }, { merged_into }), {
          at,
        }),
      );
    }),
  );
const post = (tenant: number, ...entries: readonly Partial<LedgerEntry>[]) =>
  write(
    ledger,
    tenant,
    entries.flatMap((entry, n) =>
      ledgerRows(recorded(topics.ledgerEntries, ledgerEntry({ client_id: tenant, entry_id: `led_${n}`, ...entry }))),
    ),
  );
const rowsOf = async (tenant: number) => (await report(pool, tenant, "month")).rows;
const june = { month: "2026-06", currency: "MXN", orders: 1, revenue: "100.00", refunded: "0.00", commission: "0.00" };

test("a month begins at midnight in Mexico City, to the millisecond", async () => {
  const tenant = nextTenant();
  // With summer time, until 30 October 2022, a month begins at 05:00Z; since then at 06:00Z.
  const borders = [Date.UTC(2022, 6, 1, 5), Date.UTC(2022, 10, 1, 6), Date.UTC(2026, 6, 1, 6)];
  await tell(
    tenant,
    ...borders.flatMap((at, n) => [
      { at: at - 1, order_id: `before${n}` },
      { at, order_id: `after${n}` },
    ]),
  );
  expect((await rowsOf(tenant)).map(({ month, orders }) => `${month} ${orders}`)).toEqual([
    "2022-06 1",
    "2022-07 1",
    "2022-10 1",
    "2022-11 1",
    "2026-06 1",
    "2026-07 1",
  ]);
});

test("lines of one order are one order, and a second copy counts nowhere", async () => {
  const tenant = nextTenant();
  await tell(
    tenant,
    {},
    { product_id: "sku2", value_minor: 50_00n },
    { merged_into: "00000000-0000-8000-8000-000000000001" },
  );
  expect(await rowsOf(tenant)).toEqual([{ ...june, revenue: "150.00" }]);
});

test(
  "free orders, orders without an amount and currencies of other decimals are counted each in its " + "currency",
  async () => {
    const tenant = nextTenant();
    await tell(
      tenant,
      { order_id: "free", value_minor: 0n },
      { order_id: null, t: "ext_purchase", value_minor: null, currency: null },
      { order_id: "yen", value_minor: 500n, currency: "JPY" },
      { order_id: "dinar", value_minor: 1_234n, currency: "KWD" },
    );
    expect(await rowsOf(tenant)).toEqual([
      { ...june, currency: "JPY", revenue: "500", refunded: "0", commission: "0" },
      { ...june, currency: "KWD", revenue: "1.234", refunded: "0.000", commission: "0.000" },
      { ...june, orders: 2, revenue: "0.00" },
    ]);
  },
);

describe("what was refunded", () => {
  const julyRefund = (over: Sale): Sale => ({
    t: "refund",
    product_id: null,
    quantity: null,
    at: noon + 40 * 86_400_000,
    ...over,
  });
  const refundedBy = async (...refunds: readonly Sale[]) => {
    const tenant = nextTenant();
    // Refunds first, because they may come before their sale.
    await tell(tenant, ...refunds.map(julyRefund));
    await tell(tenant, {}, { product_id: "sku2", value_minor: 50_00n }, { order_id: "o2" });
    const rows = await rowsOf(tenant);
    expect(rows).toEqual([{ ...june, orders: 2, revenue: "250.00", refunded: rows[0]?.refunded }]);
    return rows[0]?.refunded;
  };
  test("stands in the month of the sale", async () => expect(await refundedBy({ value_minor: 30_00n })).toBe("30.00"));
  test("is a line, where a product is named", async () =>
    expect(await refundedBy({ value_minor: null, currency: null, product_id: "sku2" })).toBe("50.00"));
  test("is the order, where neither amount nor product is named", async () =>
    expect(await refundedBy({ value_minor: null, currency: null })).toBe("150.00"));
  test("is never more than the line", async () =>
    expect(await refundedBy({ value_minor: 80_00n, product_id: "sku2" })).toBe("50.00"));
  test("is never more than the order", async () =>
    expect(
      await refundedBy({ value_minor: 100_00n }, { value_minor: 30_00n, product_id: "sku1" }, { value_minor: 40_00n }),
    ).toBe("150.00"));
  test("is nothing in another currency", async () =>
    expect(await refundedBy({ value_minor: 30_00n, currency: "USD" })).toBe("0.00"));
  test("is nothing of another order", async () =>
    expect(await refundedBy({ value_minor: 30_00n, order_id: "o9" })).toBe("0.00"));
});

test("commissions are the sum of the ledger by month of the sale, also where nothing was sold", async () => {
  const tenant = nextTenant();
  await tell(tenant, {});
  const back = [
    { account: "expense:client", amount_minor: -4_00n },
    { account: "payable:partner", amount_minor: 4_00n },
  ];
  await post(
    tenant,
    {},
    { kind: "reversal", amount_minor: -4_00n, lines: back, conversion_version: 2 },
    { conversion_id: "cnv_2", month: 7 },
  );
  expect(await rowsOf(tenant)).toEqual([
    { ...june, commission: "6.00" },
    { month: "2026-07", currency: "MXN", orders: 0, revenue: "0.00", refunded: "0.00", commission: "10.00" },
  ]);
});

test("a client's report and summary hold nothing of another client", async () => {
  const [one, two] = [nextTenant(), nextTenant()];
  await tell(one, {});
  await post(one, {});
  await write(conversions, one, conversionRows(recorded(topics.conversions, conversion({ client_id: one }))));
  expect(await rowsOf(two)).toEqual([]);
  expect(await summary(pool, [one, two])).toEqual({
    clients: [
      {
        client_id: one,
        conversions: 1,
        revenue: [{ currency: "MXN", amount: "100.00" }],
        commission: [{ currency: "MXN", amount: "10.00" }],
      },
      { client_id: two, conversions: 0, revenue: [], commission: [] },
    ],
    balance: [{ currency: "MXN", amount: "0.00" }],
    isBalanced: true,
  });
});

describe("by another thing than the month", () => {
  const minor = (text: string) => BigInt(text.replace(".", ""));
  /**
   * Sales of two partners on two days, and one without a partner, settled before the table kept
   * refunds.
   */
  const sales = async (): Promise<number> => {
    const tenant = nextTenant();
    const sale = (order_id: string, partner_id: number | null, day: number, refunded_minor: bigint | null) =>
      saleRows(
        recorded(
          topics.eventsAttributed,
          attributed(
            {
              ...{ client_id: tenant, event_id: `00000000-0000-8000-8000-${String(++lastEvent).padStart(12, "0")}` },
              ...{ order_id, product_line: day === 0 ? "MX" : null },
            },
            { credit: partner_id === null ? {} : { status: "attributed", partner_id, campaign_id: 7 }, refunded_minor },
          ),
          { at: noon + day * 86_400_000 },
        ),
      );
    await write(productSales, tenant, [
      ...sale("a", 21, 0, 30_00n),
      ...sale("b", 21, 1, 0n),
      ...sale("c", 22, 1, 0n),
      ...sale("d", null, 1, null),
    ]);
    await post(tenant, { partner_id: 21, occurred_at: noon }, { conversion_id: "cnv_2", partner_id: 22 });
    return tenant;
  };

  test("every split has the same totals, and a filter leaves out what it names", async () => {
    const tenant = await sales();
    const of = async (by: ReportBy, filter?: ReportFilter) => {
      const { rows } = await report(pool, tenant, by, filter);
      const sum = (pick: (row: (typeof rows)[number]) => string) =>
        rows.reduce((all, row) => all + minor(pick(row)), 0n);
      return [rows.reduce((all, row) => all + row.orders, 0), sum((row) => row.revenue), sum((row) => row.refunded)];
    };
    for (const by of bys) expect(await of(by), by).toEqual([4, 400_00n, 30_00n]);
    const { rows } = await report(pool, tenant, "partner");
    expect(rows.map(({ partner, orders, refunded }) => `${partner} ${orders} ${refunded}`)).toEqual([
      "21 2 30.00",
      "22 1 0.00",
      "none 1 0.00",
    ]);
    expect((await report(pool, tenant, "campaign")).rows.map(({ campaign }) => campaign)).toContain("7");
    expect((await report(pool, tenant, "day")).rows.map(({ day, orders }) => `${day} ${orders}`)).toEqual([
      expect.stringMatching(/^\d{4}-\d{2}-\d{2} 1$/),
      expect.stringMatching(/^\d{4}-\d{2}-\d{2} 3$/),
    ]);
    expect(await of("month", { partner_id: 21 })).toEqual([2, 200_00n, 30_00n]);
    expect(await of("partner", { campaign_id: 7 })).toEqual([3, 300_00n, 30_00n]);
    expect(await of("day", { from: noon + 43_200_000 })).toEqual([3, 300_00n, 0n]);
    expect(await of("day", { to: noon + 43_200_000 })).toEqual([1, 100_00n, 30_00n]);
  });
});
