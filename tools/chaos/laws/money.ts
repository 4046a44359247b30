// M: entries balance, every conversion has one outcome, and commissions equal those that the sender
// computes itself.
import type { Sale } from "../load/generator.ts";
import { type Evidence, elsewhere, type Law, missing, unless } from "./law.ts";

/**
 * A percentage of cents, rounded half to even. It is written again on purpose and does not use
 * domain/money.ts.
 */
const shareOf = (cents: bigint, percent: bigint): bigint => {
  const [whole, rest] = [(cents * percent) / 100n, (cents * percent) % 100n];
  return rest > 50n || (rest === 50n && whole % 2n === 1n) ? whole + 1n : whole;
};

/**
 * The commission that each order of this cycle must have earned: nothing if refunded. Sales whose
 * terms depend on others are left out.
 */
const expectedOf = ({
  generator,
  events,
  cycle,
}: Evidence): ReadonlyMap<string, { readonly sale: Sale; readonly earned: bigint }> => {
  const stored = new Set(events.filter(({ t }) => t === "purchase").map(({ order_id: order }) => order));
  const taken = new Set(events.filter(({ t }) => t === "refund").map(({ order_id: order }) => order));
  // Orders that a fraud rule held back are covered by another law.
  const odd = new Set(events.filter(({ fraud_band: band }) => band !== "ok").map(({ order_id: order }) => order));
  const found = new Map<string, { sale: Sale; earned: bigint }>();
  for (const [order, sale] of generator.sales) {
    if (!order.startsWith(cycle) || !stored.has(order) || sale.percent === null || odd.has(order)) continue;
    found.set(order, { sale, earned: taken.has(order) ? 0n : shareOf(sale.cents, sale.percent) });
  }
  return found;
};

const count = (of: string, where: string): string => `select '${of}' as what, count(*)::int as n from ${where}`;
/** Each count must be 0. */
/** What another line of the order, or another sale, caused answers no change of its own. */
const byOwnChange = "coalesce(ledger_entries.reason, '') not in ('order_line_left', 'first_sale_moved')";

const asked = async ({ target }: Evidence, ...questions: readonly string[]): Promise<readonly string[]> => {
  const rows = await target.rows<{ what: string; n: number }>(questions.join(" union all "));
  return rows.filter(({ n }) => n > 0).map(({ what, n }) => `${n} ${what}`);
};

export const money: readonly Law[] = [
  {
    id: "M1",
    says:
      "every ledger entry sums to 0 by currency, and so does the whole ledger; the application can " +
      "neither update nor delete",
    check: async (evidence) => {
      const wrong = await asked(
        evidence,
        count(
          "entries do not balance",
          "(select 1 from ledger_lines group by client_id, entry_id, currency having sum(amount_minor) <> 0) odd",
        ),
        count(
          "currencies do not balance",
          "(select 1 from ledger_lines group by currency having sum(amount_minor) <> 0) odd",
        ),
        count(
          "amounts have no lines",
          "ledger_entries e where amount_minor <> 0 and not exists (select from ledger_lines l where " +
            "l.client_id = e.client_id and l.entry_id = e.entry_id)",
        ),
        count(
          "rights to change the ledger",
          "information_schema.role_table_grants where grantee = 'tributary_app' and table_name in " +
            "('ledger_entries', 'ledger_lines') and privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE')",
        ),
      );
      const [held] = await evidence.target.rows<{ entries: number; lines: number }>(
        "select (select count(*)::int from ledger_entries) as entries, (select count(*)::int from " +
          "ledger_lines) as lines",
      );
      return unless(wrong, `${held!.entries} entries, ${held!.lines} lines`);
    },
  },
  missing("M2", "ledger = payment + adjustments + carried balance", "payments"),
  {
    id: "M3",
    says:
      "no partner loses more than was given: negative amounts are reversals of an entry that exists, " +
      "and no conversion ends below zero",
    check: async (evidence) =>
      unless(
        await asked(
          evidence,
          count("earnings are negative", "ledger_entries where kind = 'earned' and amount_minor < 0"),
          count(
            "reversals without their original",
            "ledger_entries e where reverses_entry_id is not null and not exists (select from ledger_entries " +
              "o where o.client_id = e.client_id and o.entry_id = e.reverses_entry_id)",
          ),
          count(
            "conversions below zero",
            "(select 1 from ledger_entries where kind <> 'tier_adjustment' group by client_id, conversion_id " +
              "having sum(amount_minor) < 0) odd",
          ),
        ),
        "caps and budgets: no contract of the demonstration has one",
      ),
  },
  missing("M4", "one payment per client, partner and month", "payments"),
  missing("M5", "approved and paid payments never change", "payments"),
  missing("M6", "payments move only along declared edges", "payments"),
  {
    id: "M7",
    says: "at most one partner is credited for a line of an order",
    check: async (evidence) =>
      unless(
        await asked(
          evidence,
          count(
            "lines credited to two partners",
            `(select 1 from conversions where status = 'credited' and order_id like '${evidence.session}%' ` +
              "group by client_id, order_id, product_id having count(distinct partner_id) > 1) odd",
          ),
          count(
            "lines credited twice",
            `(select 1 from conversions where status = 'credited' and order_id like '${evidence.session}%' ` +
              "group by client_id, order_id, product_id having count(*) > 1) odd",
          ),
        ),
        "of all orders",
      ),
  },
  missing("M8", "recalculating a month twice = once", "payments"),
  missing("M9", "clearing accounts are 0 when a month closes", "payments"),
  {
    id: "M10",
    says: "every conversion has one commission outcome, and every reading of it is of the newest record",
    check: async (evidence) => {
      // Orders of other senders may still be under way.
      const ours = `select client_id, conversion_id from conversions where order_id like '${evidence.session}%'`;
      const entries =
        "select from ledger_entries e where e.client_id = c.client_id and e.conversion_id = c.conversion_id";
      const wrong = await asked(
        evidence,
        count(
          "conversions without an outcome",
          `(${ours}) c where not exists (${entries} and (e.kind in ('earned', 'none')
            or (e.kind = 'adjustment' and e.conversion_version = 1)))`,
        ),
        // A change opens a line or takes back from it; volume tiers, orders and the months of a
        // customer may also move the commissions of other sales.
        count(
          "changes without their one entry",
          `(select 1 from (${ours}) c join ledger_entries using (client_id, conversion_id) group by client_id, change_id
            having count(*) filter (where kind <> 'tier_adjustment' and ${byOwnChange}) <> 1) odd`,
        ),
        count(
          "conversions whose changes are not all booked",
          `(select 1 from (${ours}) c join conversions using (client_id, conversion_id)
            join ledger_entries using (client_id, conversion_id)
            group by client_id, conversion_id, conversions.version
              having count(distinct change_id) filter (where ${byOwnChange})
                <> conversions.version) odd`,
        ),
        count(
          "commissions that are not the sum of their entries",
          `(select 1 from (${ours}) c join commissions using (client_id, conversion_id)
            join ledger_entries e using (client_id, conversion_id)
            group by client_id, conversion_id having max(commissions.version) <> count(*)
              or max(commissions.amount_minor) <> sum(e.amount_minor)) odd`,
        ),
        count(
          "conversions without a commission",
          `(${ours}) c where not exists (select from commissions m where m.client_id = c.client_id and ` +
            "m.conversion_id = c.conversion_id)",
        ),
      );
      const [held] = await evidence.target.rows<{ n: number }>(`select count(*)::int as n from (${ours}) c`);
      return unless(wrong, `${held!.n} conversions`);
    },
  },
  {
    id: "M11",
    says:
      "commissions are those that the sender works out from what it sent, to the minor unit: " +
      "half-even, once an order, nothing for forged clicks and refunds",
    check: async (evidence) => {
      const expected = expectedOf(evidence);
      const booked = await evidence.target.rows<{ order_id: string; amount: string; credited: number }>(
        `select order_id, sum(amount_minor)::text as amount, count(distinct conversion_id)::int as credited
         from conversions join ledger_entries using (client_id, conversion_id) where order_id like '${evidence.cycle}%'
           group by order_id`,
      );
      const amounts = new Map(booked.map(({ order_id: order, amount }) => [order, BigInt(amount)]));
      return unless(
        [...expected].flatMap(([order, { sale, earned }]) => {
          const found = amounts.get(order) ?? 0n;
          return found === earned ? [] : [`${order} of ${sale.tenant.slug}: ${found} booked, ${earned} earned`];
        }),
        `${expected.size} orders, ${[...expected.values()].reduce((sum, { earned }) => sum + earned, 0n)} minor units`,
      );
    },
  },
  elsewhere(
    "M12",
    "month borders of Mexico City agree in Node, ClickHouse and Postgres",
    "tests/processors/calendar.test.ts, tests/contracts/tables.test.ts",
  ),
];
