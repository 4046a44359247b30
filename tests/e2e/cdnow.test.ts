// 6,919 real purchases sent with the command line become commissions, exact to the cent, although
// every process of the product is killed meanwhile.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, root, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";

const FILE = "examples/cdnow-sample.csv";
// As in the README, for a client of its own.
const send = () =>
  `send ${FILE} --client ${slug} --token ${token} --map ` +
  "did=customer_id,ts=date,quantity=quantity,revenue=dollars --set product_id=cd,currency=USD " +
  "--shift-to yesterday";
const ORDERS = 6_919;

interface Month {
  readonly orders: number;
  readonly revenue: bigint;
  readonly commission: bigint;
}

/**
 * The expected result, computed from the file alone: days are moved, cents counted, 10 % of each
 * sale rounded half to even and summed by month.
 */
const expectedMonths = (lastDay: string): ReadonlyMap<string, Month> => {
  const [, ...lines] = readFileSync(join(root, FILE), "utf8").trim().split("\n");
  const sales = lines.map((line) => line.trim().split(","));
  const newest = sales
    .map(([, day]) => day!)
    .sort()
    .at(-1)!;
  const shift = Date.parse(lastDay) - Date.parse(newest);
  const months = new Map<string, Month>();
  for (const [, day, , dollars] of sales) {
    const month = new Date(Date.parse(day!) + shift).toISOString().slice(0, 7);
    const [whole, decimals = ""] = dollars!.split(".");
    const cents = BigInt(whole!) * 100n + BigInt(decimals.padEnd(2, "0"));
    const [tenth, rest] = [cents / 10n, cents % 10n];
    const isUp = rest > 5n || (rest === 5n && tenth % 2n === 1n);
    const before = months.get(month) ?? { orders: 0, revenue: 0n, commission: 0n };
    const commission = before.commission + tenth + (isUp ? 1n : 0n);
    months.set(month, { orders: before.orders + 1, revenue: before.revenue + cents, commission });
  }
  return months;
};
const yesterdayInMexico = (): string =>
  new Intl.DateTimeFormat("en-CA", { timeZone: "America/Mexico_City" }).format(new Date(Date.now() - 86_400_000));

let product: Product;
let clientId: number;
let slug: string;
let token: string;
/** Records of other files. */
let before: { readonly raw: number; readonly claims: number; readonly booked: number };
beforeAll(async () => {
  product = await joinProduct("cdnow");
  ({ id: clientId, slug, token } = product.client("aurora-music"));
  before = {
    raw: await lengthOf("events.raw"),
    claims: await lengthOf("claims"),
    booked: await lengthOf("ledger.entries"),
  };
});
afterAll(() => product?.clear());

const lengthOf = async (topic: string): Promise<number> =>
  (await product.admin.watermarks(topic)).reduce((sum, { low, high }) => sum + high - low, 0);
const reported = async (): Promise<ReadonlyMap<string, Month>> => {
  const { code, stdout, stderr } = await product.tributary("report", "--client", slug, "--by", "month", "--json").done;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const { rows } = JSON.parse(stdout) as {
    rows: { month: string; currency: string; orders: number; revenue: string; refunded: string; commission: string }[];
  };
  for (const { currency, refunded } of rows)
    expect({ currency, refunded }).toEqual({ currency: "USD", refunded: "0.00" });
  const cents = (text: string): bigint => BigInt(text.replace(".", ""));
  return new Map(
    rows.map(({ month, orders, revenue, commission }) => [
      month,
      { orders, revenue: cents(revenue), commission: cents(commission) },
    ]),
  );
};
const counts = async () => {
  const of = (table: string, what = "count(*)::int") => `(select ${what} from ${table} where client_id = ${clientId})`;
  const [row] = await product.rows(`select ${of("ledger_entries")} as entries, ${of("ledger_lines")} as lines,
    ${of("conversions")} as conversions, ${of("commissions")} as commissions, ${of("product_sales")} as sales,
    ${of("ledger_lines", "sum(amount_minor)::text")} as balance`);
  return row;
};
let lastDay = "";

test("the file goes in, although the edge and both workers are killed on the way", async () => {
  const days = [yesterdayInMexico()];
  const sending = product.tributary(...send().split(" "));
  // The edge dies while the file is sent, and each worker after its first outputs are in the log.
  await until("the first purchases are in the log", 20_000, async () =>
    expect(await lengthOf("events.raw")).toBeGreaterThan(before.raw),
  );
  const edge = product.replaced("ingest", 60_000);
  expect(sending.child.exitCode).toBeNull();
  await until("the first are attributed", 30_000, async () =>
    expect(await lengthOf("claims")).toBeGreaterThan(before.claims),
  );
  const chain = product.replaced("worker-chain", 90_000);
  await until("the first are booked", 30_000, async () =>
    expect(await lengthOf("ledger.entries")).toBeGreaterThan(before.booked),
  );
  expect((await counts()).entries).toBeLessThan(ORDERS);
  const money = product.replaced("worker-money", 90_000);

  const { code, stdout } = await sending.done;
  days.push(yesterdayInMexico());
  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${ORDERS} rows sent, ${ORDERS} accepted, 0 rejected`),
  });
  const shift = Number(/moved by (\d+) days/.exec(stdout)![1]);
  lastDay = new Date(Date.parse("1998-06-30") + shift * 86_400_000).toISOString().slice(0, 10);
  expect(days).toContain(lastDay);
  for (const { was, is } of [await edge, await chain, await money]) expect(is).not.toBe(was);
  await product.quiet(60_000);
}, 180_000);

test("orders, revenue and commissions of every month are those of an independent calculation", async () => {
  const found = await reported();
  expect(found).toEqual(expectedMonths(lastDay));
  const months = [...found.values()];
  expect(months.reduce((sum, { orders }) => sum + orders, 0)).toBe(ORDERS);
  expect(months.reduce((sum, { revenue }) => sum + revenue, 0n)).toBe(244_091_94n);
  expect(await counts()).toMatchObject({
    entries: ORDERS,
    conversions: ORDERS,
    commissions: ORDERS,
    sales: ORDERS,
    balance: "0",
  });
});

test("ClickHouse holds every purchase once, credited by the rule", async () => {
  const found = await product.clickhouse(`select t, credit_status, credit_method,
      toUInt32(count()) as events, toUInt32(uniqExact(event_id)) as ids,
      toUInt32(uniqExact(order_id)) as orders, toString(sum(value)) as revenue
    from events_current where client_id = ${clientId} group by t, credit_status, credit_method`);
  expect(found).toEqual([
    {
      t: "purchase",
      credit_status: "attributed",
      credit_method: "rule",
      events: ORDERS,
      ids: ORDERS,
      orders: ORDERS,
      revenue: "244091.94",
    },
  ]);
});

test("sending the file again changes nothing", async () => {
  const sent = { months: await reported(), counts: await counts() };
  const inLog = await lengthOf("events.raw");
  const { code, stdout } = await product.tributary(...send().split(" ")).done;
  expect({ code, stdout }).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`${ORDERS} accepted, 0 rejected`),
  });
  expect(await lengthOf("events.raw")).toBe(inLog + ORDERS);
  await product.quiet(60_000);
  expect({ months: await reported(), counts: await counts() }).toEqual(sent);
  const [stored] = await product.clickhouse(
    `select toUInt32(count()) as events from events_current where client_id = ${clientId}`,
  );
  expect(stored).toEqual({ events: ORDERS });
}, 120_000);
