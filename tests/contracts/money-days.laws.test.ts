// Law C7 for sums by day: at every moment they equal the totals of the rows of sales, conversions,
// ledger and commissions, whatever was written, changed, repeated or deleted, and by whom.
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { openPool, type Sql, sql, transaction } from "../../infra/postgres/sql.ts";
import { addUpMoneyDays, ledgerBalances } from "../../modules/figures/money-days/money-days.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, conversion, hourMs, recorded } from "../support/builders.ts";
import { entry } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { storeMoney } from "../support/sold.ts";

const { env } = sharedStack();
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
const admin = openPool(env.POSTGRES_ADMIN_URL!, { max: 1 });
afterAll(() => Promise.all([pool.end(), admin.end()]));

let tenants = 900_000_000 + (Date.now() % 1_000_000) * 100;
const midnight = Date.UTC(2026, 5, 16, 6);

/** The sums computed from the rows; `rows` and `sums` must be equal. */
const rowsOf = sql`
  with said as (
    select client_id, 'sales' as source, occurred_at, partner_id, campaign_id, t as event_type, segment,
      coalesce(currency, 'MXN') as currency, credit_status as status,
      case when credit_status = 'unattributed' then credit_reason end as reason, null::int as period,
      coalesce(value_minor, 0) as amount, coalesce(refunded_minor, 0) as part
    from product_sales where t <> 'refund' and merged_into is null
    union all
    select client_id, 'conversions', occurred_at, partner_id, campaign_id, event_type, segment, currency, status, null,
      null, 0, 0 from conversions
    union all
    select client_id, 'ledger', occurred_at, partner_id, campaign_id, event_type, segment, currency, kind, null,
      year * 100 + month, amount_minor, held_minor from ledger_entries
    union all
    select client_id, 'commissions', occurred_at, partner_id, campaign_id, event_type, segment, currency, status, null,
      year * 100 + month, amount_minor, 0 from commissions)
  select source, (occurred_at at time zone 'America/Mexico_City')::date as day, partner_id, campaign_id, event_type,
    segment, currency, status, reason, period, count(*)::text as n, sum(amount)::text as amount, sum(part)::text as part
  from said`;
const sumsOf = sql`
  select source, day, partner_id, campaign_id, event_type, segment, currency, status, reason, period,
    sum(n)::text as n, sum(amount_minor)::text as amount, sum(part_minor)::text as part
  from money_days`;
const grouped = sql`group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10`;
const ordered = sql`order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10`;

const bothOf = (client_id: number) =>
  transaction(
    pool,
    [client_id],
    async (tx) => {
      const read = async (all: Sql, any: Sql) =>
        (await tx.query(sql`${all} where client_id = ${client_id} ${grouped} ${any} ${ordered}`)).rows;
      // Until differences are added up, they may cancel to nothing.
      const any = sql`having sum(n) <> 0 or sum(amount_minor) <> 0 or sum(part_minor) <> 0`;
      return { rows: await read(rowsOf, sql``), sums: await read(sumsOf, any) };
    },
    { isReadOnly: true },
  );

const line = fc.record({
  n: fc.integer({ min: 1, max: 5 }),
  version: fc.integer({ min: 1, max: 3 }),
  at: fc.constantFrom(midnight - 1, midnight, midnight + hourMs, Date.UTC(2026, 6, 1, 5, 59)),
  t: fc.constantFrom("purchase", "refund"),
  partner_id: fc.constantFrom(21, 22, null),
  reason: fc.constantFrom("no_click", "fraud_rejected"),
  value: fc.integer({ min: 0, max: 1_000_000 }),
  refunded: fc.constantFrom(null, 0n, 5n),
  merged: fc.boolean(),
});
type Line = typeof line extends fc.Arbitrary<infer One> ? One : never;

const uuid = (client: number, n: number): string =>
  `00000000-0000-8000-8${(client % 4_096).toString(16).padStart(3, "0")}-${n.toString(16).padStart(12, "0")}`;

const writeSales = (client_id: number, lines: readonly Line[]): Promise<void> =>
  postgresStore(pool).within({ tenants: [client_id], token: "" }, (write) =>
    productSales.write(
      lines.flatMap(({ n, version, at, t, partner_id, reason, value, refunded, merged }) =>
        saleRows(
          recorded(
            topics.eventsAttributed,
            attributed(
              { client_id, event_id: uuid(client_id, n), t, ts: at, order_id: `o${n % 2}`, value_minor: BigInt(value) },
              {
                credit: partner_id === null ? { reason } : clickCredit({ partner_id }),
                ...{ version, refunded_minor: refunded, merged_into: merged ? uuid(client_id, 99) : null },
              },
            ),
            { at },
          ),
        ),
      ),
      write,
    ),
  );

const writeMoney = (client_id: number, { n, version, at, value, merged }: Line): Promise<void> => {
  const ids = { conversion_id: `cnv_${client_id}_${n}`, client_id, partner_id: 21, occurred_at: at };
  const kind = version === 1 ? "credited" : "reversed";
  const amount_minor = version === 1 ? BigInt(value) : -BigInt(value);
  const account = merged ? "held:partner" : "payable:partner";
  return storeMoney(
    { pool, clickhouse: undefined as never },
    [conversion({ ...ids, version, kind, change_id: `chg_${n}_${version}`, value_minor: 5n, refunded_minor: 5n })],
    [
      entry({
        ...ids,
        ...{ entry_id: `led_${client_id}_${n}_${version}`, kind: version === 1 ? "earned" : "reversal", amount_minor },
        ...{ change_id: `chg_${n}_${version}`, conversion_version: version },
        lines: [
          { account: "expense:client", amount_minor },
          { account, amount_minor: -amount_minor },
        ],
      }),
    ],
  ).catch((error: { readonly code?: string }) => {
    // A second content of an id is refused as a whole, with its sums.
    if (error.code !== "23505") throw error;
  });
};

test("sums by day are what their rows add up to, after every write, repetition, removal and adding up", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 6 }), async (lines) => {
      const client_id = ++tenants;
      await writeSales(client_id, lines);
      await Promise.all([
        ...lines.map((one) => writeSales(client_id, [one])),
        (async () => {
          for (const one of lines) await writeMoney(client_id, one);
        })(),
        addUpMoneyDays(pool),
      ]);
      const written = await bothOf(client_id);
      expect(written.rows.length).toBeGreaterThan(0);
      expect(written.sums).toEqual(written.rows);
      while ((await addUpMoneyDays(pool)) !== 0);
      expect(await bothOf(client_id)).toEqual(written);
      await admin.query(
        sql`delete from product_sales where client_id = ${client_id} and event_id = ${uuid(client_id, 1)}`,
      );
      const { rows, sums } = await bothOf(client_id);
      expect(sums).toEqual(rows);
    }),
    { numRuns: 12 },
  );
});

test("what was added up is one row a group, and a group that came to nothing has none", async () => {
  const client_id = ++tenants;
  const sold = { n: 1, version: 1, at: midnight, t: "purchase", partner_id: 21, reason: "no_click" } as const;
  const one = { ...sold, value: 100, refunded: null, merged: false };
  await writeSales(client_id, [one]);
  await writeSales(client_id, [{ ...one, n: 2 }]);
  await writeSales(client_id, [{ ...one, version: 2, partner_id: 22 }]);
  const stored = async () =>
    (
      await admin.query(sql`
        select partner_id, n::int, amount_minor::int as amount, is_sum from money_days where client_id = ${client_id}
        order by 1, 2`)
    ).rows;
  expect(await stored()).toHaveLength(4);
  while ((await addUpMoneyDays(pool)) !== 0);
  expect(await stored()).toEqual([
    { partner_id: 21, n: 1, amount: 100, is_sum: true },
    { partner_id: 22, n: 1, amount: 100, is_sum: true },
  ]);
});

test("the balance of the ledger is what its lines of all clients add up to, in units of the currency", async () => {
  const ofBahrain = async () => (await ledgerBalances(pool)).filter(({ currency }) => currency === "BHD");
  const before = new Map((await ofBahrain()).map(({ account, amount }) => [account, amount]));
  const [one, another] = [++tenants, ++tenants];
  for (const [client_id, account] of [
    [one, "held:partner"],
    [another, "payable:partner"],
  ] as const) {
    const ids = { client_id, conversion_id: `cnv_${client_id}`, change_id: `chg_${client_id}`, currency: "BHD" };
    const lines = [
      { account: "expense:client", amount_minor: 12_345n },
      { account, amount_minor: -12_345n },
    ];
    const earned = entry({ ...ids, entry_id: `led_${client_id}`, amount_minor: 12_345n, lines });
    await storeMoney({ pool, clickhouse: undefined as never }, [conversion(ids)], [earned]);
  }
  const moved = (await ofBahrain()).map(({ account, amount }) => [account, amount - (before.get(account) ?? 0)]);
  expect(Object.fromEntries(moved)).toEqual({
    expense: expect.closeTo(24.69, 3),
    held: expect.closeTo(12.345, 3),
    payable: expect.closeTo(12.345, 3),
  });
});
